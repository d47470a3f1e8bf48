// SPDX-License-Identifier: GPL-2.0
/*
 * fakexe - an Intel GPU with SR-IOV for machines that have none
 *
 * Binds to the network card igb of QEMU and shows it as an Arc Pro B60 with
 * the interface by which the driver xe provisions virtual functions, since
 * Linux 7.0 (Documentation/ABI/testing/sysfs-driver-intel-xe-sriov):
 *
 *	<GPU>/sriov_admin/
 *		.bulk_profile/	write only: all functions
 *		pf/		the GPU itself
 *		vf<N>/		from 1 to sriov_totalvfs, enabled or not
 *			device	link, while it is enabled
 *			profile/{vram_quota,exec_quantum_ms,...}
 *
 * The virtual functions are what QEMU emulates; vfio-pci gives them to guests.
 * Only numbers are kept of what is provisioned. See README.rst.
 */
#include <linux/kobject.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#define QEMU_IGB	0x10c9
#define ARC_PRO_B60	0xe211
#define B60_SUBSYSTEM	0x1114

/* What is left for virtual functions of 24 GiB; what is allotted at a time. */
#define XE_VRAM		(24480ULL * SZ_1M)
#define XE_ALIGNMENT	SZ_2M
/* The most that the firmware accepts. */
#define XE_MAX_EXEC_QUANTUM_MS		100000U
#define XE_MAX_PREEMPT_TIMEOUT_US	100000000U

enum xe_priority {
	XE_LOW,
	XE_NORMAL,
	XE_HIGH,		/* of the GPU alone */
};

static const char * const xe_priorities[] = { "low", "normal", "high" };

struct xe_profile {
	u64 vram;
	u32 exec_quantum_ms;
	u32 preempt_timeout_us;
	enum xe_priority priority;
};

/* A directory of sriov_admin/; 0 is the GPU, which has the root as well. */
struct xe_node {
	struct kobject kobj;
	struct xe_gpu *gpu;
	unsigned int vf;
};

struct xe_gpu {
	struct pci_dev *pdev;
	struct mutex lock;	/* for the profiles */
	unsigned int total;	/* virtual functions that there may be */
	unsigned int linked;	/* those that have a link */
	struct xe_node *root;
	struct xe_node **nodes;		/* of the GPU and of each function */
	struct xe_profile profiles[];	/* in the same order */
};

static struct xe_node *xe_node_of(struct kobject *kobj)
{
	return container_of(kobj, struct xe_node, kobj);
}

/* ------------------------------------------------------------------------
 * Provisioning
 */

static u64 xe_sum_vram(const struct xe_gpu *gpu)
{
	unsigned int vf;
	u64 sum = 0;

	lockdep_assert_held(&gpu->lock);
	for (vf = 1; vf <= gpu->total; vf++)
		sum += gpu->profiles[vf].vram;
	return sum;
}

static int xe_set_vram(struct xe_gpu *gpu, unsigned int vf, u64 bytes)
{
	u64 others = xe_sum_vram(gpu) - gpu->profiles[vf].vram;

	if (bytes > XE_VRAM)
		return -ENOSPC;
	bytes = round_up(bytes, XE_ALIGNMENT);
	if (bytes > XE_VRAM - others)
		return -ENOSPC;
	gpu->profiles[vf].vram = bytes;
	return 0;
}

/* Equal parts, unless any of them has a quota already. */
static void xe_provision(struct xe_gpu *gpu, unsigned int vfs)
{
	u64 each = round_down(div_u64(XE_VRAM - xe_sum_vram(gpu), vfs),
			      XE_ALIGNMENT);
	unsigned int vf;

	for (vf = 1; vf <= vfs; vf++)
		if (gpu->profiles[vf].vram)
			return;
	for (vf = 1; vf <= vfs; vf++)
		gpu->profiles[vf].vram = each;
}

static void xe_release(struct xe_gpu *gpu, unsigned int vfs)
{
	unsigned int vf;

	lockdep_assert_held(&gpu->lock);
	for (vf = 1; vf <= vfs; vf++) {
		gpu->profiles[vf].vram = 0;
		gpu->profiles[vf].exec_quantum_ms = 0;
		gpu->profiles[vf].preempt_timeout_us = 0;
	}
}

/* ------------------------------------------------------------------------
 * Files
 */

struct xe_attribute {
	struct attribute attr;
	ssize_t (*show)(const struct xe_profile *profile, bool is_vf,
			char *buf);
	int (*store)(struct xe_gpu *gpu, unsigned int vf, const char *buf);
};

static ssize_t vram_quota_show(const struct xe_profile *profile, bool is_vf,
			       char *buf)
{
	return sysfs_emit(buf, "%llu\n", profile->vram);
}

static int vram_quota_store(struct xe_gpu *gpu, unsigned int vf,
			    const char *buf)
{
	u64 bytes;
	int ret = kstrtou64(buf, 0, &bytes);

	return ret ? ret : xe_set_vram(gpu, vf, bytes);
}

static int xe_store_number(const char *buf, u32 most, u32 *number)
{
	u32 wanted;
	int ret = kstrtou32(buf, 0, &wanted);

	if (ret)
		return ret;
	if (wanted > most)
		return -EIO;	/* by the firmware */
	*number = wanted;
	return 0;
}

static ssize_t exec_quantum_ms_show(const struct xe_profile *profile,
				    bool is_vf, char *buf)
{
	return sysfs_emit(buf, "%u\n", profile->exec_quantum_ms);
}

static int exec_quantum_ms_store(struct xe_gpu *gpu, unsigned int vf,
				 const char *buf)
{
	return xe_store_number(buf, XE_MAX_EXEC_QUANTUM_MS,
			       &gpu->profiles[vf].exec_quantum_ms);
}

static ssize_t preempt_timeout_us_show(const struct xe_profile *profile,
				       bool is_vf, char *buf)
{
	return sysfs_emit(buf, "%u\n", profile->preempt_timeout_us);
}

static int preempt_timeout_us_store(struct xe_gpu *gpu, unsigned int vf,
				    const char *buf)
{
	return xe_store_number(buf, XE_MAX_PREEMPT_TIMEOUT_US,
			       &gpu->profiles[vf].preempt_timeout_us);
}

static ssize_t sched_priority_show(const struct xe_profile *profile,
				   bool is_vf, char *buf)
{
	unsigned int i, count = is_vf ? XE_HIGH : ARRAY_SIZE(xe_priorities);
	int len = 0;

	for (i = 0; i < count; i++) {
		const char *format = i == profile->priority ? "[%s]" : "%s";

		if (i)
			len += sysfs_emit_at(buf, len, " ");
		len += sysfs_emit_at(buf, len, format, xe_priorities[i]);
	}
	return len + sysfs_emit_at(buf, len, "\n");
}

/* The file of a single function is read only; in bulk, they refuse "high". */
static int sched_priority_store(struct xe_gpu *gpu, unsigned int vf,
				const char *buf)
{
	size_t count = vf ? XE_HIGH : ARRAY_SIZE(xe_priorities);
	int match = __sysfs_match_string(xe_priorities, count, buf);

	if (match < 0)
		return -EINVAL;
	gpu->profiles[vf].priority = match;
	return 0;
}

#define XE_ATTRIBUTE(_name, _mode)					\
static struct xe_attribute xe_attr_##_name = {				\
	.attr = { .name = #_name, .mode = _mode },			\
	.show = _name##_show,						\
	.store = _name##_store,						\
}
XE_ATTRIBUTE(vram_quota, 0644);
XE_ATTRIBUTE(exec_quantum_ms, 0644);
XE_ATTRIBUTE(preempt_timeout_us, 0644);
XE_ATTRIBUTE(sched_priority, 0644);

static struct attribute *xe_profile_attrs[] = {
	&xe_attr_vram_quota.attr,
	&xe_attr_exec_quantum_ms.attr,
	&xe_attr_preempt_timeout_us.attr,
	&xe_attr_sched_priority.attr,
	NULL
};

static umode_t xe_profile_is_visible(struct kobject *kobj,
				     struct attribute *attr, int index)
{
	bool is_vf = xe_node_of(kobj)->vf;

	if (attr == &xe_attr_vram_quota.attr && !is_vf)
		return 0;
	if (attr == &xe_attr_sched_priority.attr && is_vf)
		return 0444;
	return attr->mode;
}

static const struct attribute_group xe_profile_group = {
	.name = "profile",
	.attrs = xe_profile_attrs,
	.is_visible = xe_profile_is_visible,
};
__ATTRIBUTE_GROUPS(xe_profile);

static umode_t xe_bulk_is_visible(struct kobject *kobj, struct attribute *attr,
				  int index)
{
	return 0200;
}

static const struct attribute_group xe_bulk_group = {
	.name = ".bulk_profile",
	.attrs = xe_profile_attrs,
	.is_visible = xe_bulk_is_visible,
};
__ATTRIBUTE_GROUPS(xe_bulk);

static const struct xe_attribute *xe_attribute_of(struct attribute *attr)
{
	return container_of(attr, struct xe_attribute, attr);
}

static ssize_t xe_profile_show(struct kobject *kobj, struct attribute *attr,
			       char *buf)
{
	struct xe_node *node = xe_node_of(kobj);
	struct xe_gpu *gpu = node->gpu;

	guard(mutex)(&gpu->lock);
	return xe_attribute_of(attr)->show(&gpu->profiles[node->vf], node->vf,
					   buf);
}

static ssize_t xe_profile_store(struct kobject *kobj, struct attribute *attr,
				const char *buf, size_t count)
{
	struct xe_node *node = xe_node_of(kobj);
	int ret;

	guard(mutex)(&node->gpu->lock);
	ret = xe_attribute_of(attr)->store(node->gpu, node->vf, buf);
	return ret ? ret : count;
}

/* Memory is of virtual functions; time is of the GPU as well. */
static ssize_t xe_bulk_store(struct kobject *kobj, struct attribute *attr,
			     const char *buf, size_t count)
{
	struct xe_gpu *gpu = xe_node_of(kobj)->gpu;
	unsigned int vf;
	int ret = 0;

	guard(mutex)(&gpu->lock);
	for (vf = 1; !ret && vf <= gpu->total; vf++)
		ret = xe_attribute_of(attr)->store(gpu, vf, buf);
	if (!ret && attr != &xe_attr_vram_quota.attr)
		ret = xe_attribute_of(attr)->store(gpu, 0, buf);
	return ret ? ret : count;
}

static void xe_release_node(struct kobject *kobj)
{
	kfree(xe_node_of(kobj));
}

static const struct sysfs_ops xe_profile_ops = {
	.show = xe_profile_show,
	.store = xe_profile_store,
};

static const struct kobj_type xe_profile_ktype = {
	.release = xe_release_node,
	.sysfs_ops = &xe_profile_ops,
	.default_groups = xe_profile_groups,
};

static const struct sysfs_ops xe_bulk_ops = { .store = xe_bulk_store };

static const struct kobj_type xe_bulk_ktype = {
	.release = xe_release_node,
	.sysfs_ops = &xe_bulk_ops,
	.default_groups = xe_bulk_groups,
};

/* ------------------------------------------------------------------------
 * Directories
 */

static struct xe_node *xe_add_node(struct xe_gpu *gpu, unsigned int vf,
				   const struct kobj_type *ktype,
				   struct kobject *parent, const char *name)
{
	struct xe_node *node = kzalloc(sizeof(*node), GFP_KERNEL);
	int ret;

	if (!node)
		return NULL;
	node->gpu = gpu;
	node->vf = vf;
	ret = kobject_init_and_add(&node->kobj, ktype, parent, "%s", name);
	if (ret) {
		kobject_put(&node->kobj);
		return NULL;
	}
	return node;
}

static void xe_remove_node(struct xe_node *node)
{
	if (!node)
		return;
	kobject_del(&node->kobj);	/* waits for those who read or write */
	kobject_put(&node->kobj);
}

static void xe_remove_tree(struct xe_gpu *gpu)
{
	unsigned int vf;

	for (vf = 0; vf <= gpu->total; vf++)
		xe_remove_node(gpu->nodes[vf]);
	xe_remove_node(gpu->root);
}

static int xe_add_tree(struct xe_gpu *gpu)
{
	struct kobject *device = &gpu->pdev->dev.kobj;
	unsigned int vf;
	int ret = -ENOMEM;

	gpu->root = xe_add_node(gpu, 0, &xe_bulk_ktype, device, "sriov_admin");
	if (!gpu->root)
		return ret;
	for (vf = 0; vf <= gpu->total; vf++) {
		char name[16] = "pf";

		if (vf)
			snprintf(name, sizeof(name), "vf%u", vf);
		gpu->nodes[vf] = xe_add_node(gpu, vf, &xe_profile_ktype,
					     &gpu->root->kobj, name);
		if (!gpu->nodes[vf])
			goto remove;
	}
	ret = sysfs_create_link(&gpu->nodes[0]->kobj, device, "device");
	if (!ret)
		return 0;
remove:
	xe_remove_tree(gpu);
	return ret;
}

static void xe_link_vfs(struct xe_gpu *gpu, unsigned int vfs)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev) {
		unsigned int vf;

		if (!pdev->is_virtfn || pci_physfn(pdev) != gpu->pdev)
			continue;
		vf = pci_iov_vf_id(pdev) + 1;
		if (sysfs_create_link(&gpu->nodes[vf]->kobj, &pdev->dev.kobj,
				      "device"))
			pci_err(pdev, "there will be no link to it\n");
	}
	gpu->linked = vfs;
}

static void xe_unlink_vfs(struct xe_gpu *gpu)
{
	unsigned int vf;

	for (vf = 1; vf <= gpu->linked; vf++)
		sysfs_remove_link(&gpu->nodes[vf]->kobj, "device");
	gpu->linked = 0;
}

/* ------------------------------------------------------------------------
 * Functions come and go
 */

/*
 * As QEMU has it, and as we left it when we had it before. A real network card
 * of that id is of another subsystem.
 */
static const struct pci_device_id xe_ids[] = {
	{ PCI_DEVICE_SUB(PCI_VENDOR_ID_INTEL, QEMU_IGB,
			 PCI_SUBVENDOR_ID_REDHAT_QUMRANET,
			 PCI_SUBDEVICE_ID_QEMU) },
	{ PCI_DEVICE(PCI_VENDOR_ID_INTEL, ARC_PRO_B60) },
	{ }
};
MODULE_DEVICE_TABLE(pci, xe_ids);

static bool xe_is_gpu(struct pci_dev *pdev)
{
	return pci_match_id(xe_ids, pci_physfn(pdev));
}

/* Show a function as what it plays; say whether it was something else. */
static bool xe_disguise(struct pci_dev *pdev)
{
	bool new = pdev->device != ARC_PRO_B60;

	pdev->device = ARC_PRO_B60;
	pdev->class = PCI_CLASS_DISPLAY_VGA << 8;
	pdev->subsystem_vendor = PCI_VENDOR_ID_INTEL;
	pdev->subsystem_device = pdev->is_virtfn ? 0 : B60_SUBSYSTEM;
	return new;
}

static void xe_disable_vfs(struct xe_gpu *gpu)
{
	int vfs = pci_num_vf(gpu->pdev);

	if (!vfs)
		return;
	xe_unlink_vfs(gpu);
	pci_disable_sriov(gpu->pdev);	/* waits for guests that have some */
	guard(mutex)(&gpu->lock);
	xe_release(gpu, vfs);
}

static int xe_enable_vfs(struct xe_gpu *gpu, int vfs)
{
	int ret;

	scoped_guard(mutex, &gpu->lock)
		xe_provision(gpu, vfs);
	ret = pci_enable_sriov(gpu->pdev, vfs);
	if (ret) {
		guard(mutex)(&gpu->lock);
		xe_release(gpu, vfs);
		return ret;
	}
	xe_link_vfs(gpu, vfs);
	return vfs;
}

/* Of the number the kernel has seen to before: ERANGE, EBUSY. */
static int xe_sriov_configure(struct pci_dev *pdev, int vfs)
{
	struct xe_gpu *gpu = pci_get_drvdata(pdev);

	if (vfs)
		return xe_enable_vfs(gpu, vfs);
	xe_disable_vfs(gpu);
	return 0;
}

static int xe_probe_gpu(struct pci_dev *pdev)
{
	unsigned int total = pci_sriov_get_totalvfs(pdev);
	struct xe_gpu *gpu;
	int ret;

	gpu = devm_kzalloc(&pdev->dev, struct_size(gpu, profiles, total + 1),
			   GFP_KERNEL);
	if (!gpu)
		return -ENOMEM;
	gpu->nodes = devm_kcalloc(&pdev->dev, total + 1, sizeof(*gpu->nodes),
				  GFP_KERNEL);
	if (!gpu->nodes)
		return -ENOMEM;
	gpu->pdev = pdev;
	gpu->total = total;
	mutex_init(&gpu->lock);
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	pci_set_drvdata(pdev, gpu);
	return xe_add_tree(gpu);
}

static int xe_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	/* Whoever looked at it before saw another device. */
	if (xe_disguise(pdev))
		kobject_uevent(&pdev->dev.kobj, KOBJ_CHANGE);
	/* A function is for the host until a guest gets it. */
	return pdev->is_virtfn ? 0 : xe_probe_gpu(pdev);
}

static void xe_remove(struct pci_dev *pdev)
{
	struct xe_gpu *gpu = pci_get_drvdata(pdev);

	if (pdev->is_virtfn)
		return;
	xe_disable_vfs(gpu);
	xe_remove_tree(gpu);
}

/*
 * A function that comes is disguised before anybody hears of it: vfio-pci takes
 * one of this class only if the arbiter of VGA devices has seen it so.
 */
static int xe_notify(struct notifier_block *block, unsigned long action,
		     void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);

	if (action != BUS_NOTIFY_ADD_DEVICE || !xe_is_gpu(pdev))
		return NOTIFY_DONE;
	xe_disguise(pdev);
	return NOTIFY_OK;
}

static struct notifier_block xe_notifier = {
	.notifier_call = xe_notify,
	.priority = INT_MAX,
};

static struct pci_driver xe_driver = {
	.name = "xe",
	.id_table = xe_ids,
	.probe = xe_probe,
	.remove = xe_remove,
	.sriov_configure = xe_sriov_configure,
};

static int __init xe_init(void)
{
	int ret = bus_register_notifier(&pci_bus_type, &xe_notifier);

	if (ret)
		return ret;
	ret = pci_register_driver(&xe_driver);
	if (ret)
		bus_unregister_notifier(&pci_bus_type, &xe_notifier);
	return ret;
}

static void __exit xe_exit(void)
{
	pci_unregister_driver(&xe_driver);
	bus_unregister_notifier(&pci_bus_type, &xe_notifier);
}

module_init(xe_init);
module_exit(xe_exit);
MODULE_DESCRIPTION("An Intel GPU with SR-IOV for machines that have none");
MODULE_LICENSE("GPL");
