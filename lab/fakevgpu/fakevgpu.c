// SPDX-License-Identifier: GPL-2.0
/*
 * fakevgpu - GPUs with vGPUs for machines that have none
 *
 * Binds to test devices of QEMU and shows them as GPUs of NVIDIA or Intel,
 * with the interfaces by which vGPUs are made on the real ones:
 *
 *   - mdev types on the physical function (Tesla T4, GVT-g),
 *   - mdev types on each virtual function (A10),
 *   - the same, on GPU instances in MIG mode (A100),
 *   - a directory nvidia/ on each virtual function, which is a VFIO device
 *     itself (L40S).
 *
 * The vGPUs are real devices for VFIO, and QEMU starts guests with them, but
 * there is nothing in them: an mdev is a PCI configuration space, a virtual
 * function is what QEMU emulates. See README.rst for how to use it.
 */
#include <linux/list.h>
#include <linux/mdev.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/vfio.h>
#include <linux/vfio_pci_core.h>
#include <linux/workqueue.h>

#include "mig.h"

static unsigned int id_offset;
module_param(id_offset, uint, 0444);
MODULE_PARM_DESC(id_offset, "added to the number of every vGPU type, as if by another release of the driver");

static unsigned int delay_ms;
module_param(delay_ms, uint, 0444);
MODULE_PARM_DESC(delay_ms, "milliseconds from binding a function to its vGPU types, unless the GPU was told otherwise");

static char *mig = "";
module_param(mig, charp, 0444);
MODULE_PARM_DESC(mig, "addresses of GPUs that begin in MIG mode, separated by commas: a real GPU remembers it");

/* ------------------------------------------------------------------------
 * What the GPUs are like
 *
 * Ids and names are those of public captures and lists, and so are the maxima
 * of Q, B and C types. Those of A types and of L40S-3B are taken from the Q
 * type of the same size; those of GVT-g are ours.
 */

struct fake_type {
	unsigned int number;	/* 0: the type is called by its name */
	const char *name;
	char series;
	unsigned int mib;
	unsigned int max;	/* on one GPU */
	u16 subsystem;		/* that a guest sees */
	const struct fake_profile *profile;	/* of its GPU instance, if backed by MIG */
};

enum fake_scheme {
	FAKE_MDEV_ON_PF,
	FAKE_MDEV_ON_VF,
	FAKE_VFIO_ON_VF,
};

struct fake_board {
	const char *name;
	u16 qemu_vendor, qemu_device;
	u16 vendor, device;
	u16 subsystem_vendor, subsystem_device;
	u32 class;
	enum fake_scheme scheme;
	unsigned int mib;
	bool heterogeneous;	/* to begin with */
	unsigned int vfs;	/* by which devices of QEMU are told apart, or 0 */
	const struct fake_type *types;
	unsigned int ntypes;
	const struct fake_profile *profiles;	/* of GPU instances */
	unsigned int nprofiles;
};

#define NVIDIA_TYPE(_number, _gpu, _gb, _series, _max, _subsystem) {	\
	.number = _number,						\
	.name = _gpu "-" #_gb #_series,					\
	.series = #_series[0],						\
	.mib = _gb * 1024,						\
	.max = _max,							\
	.subsystem = _subsystem,					\
}

static const struct fake_type t4_types[] = {
	NVIDIA_TYPE(222, "GRID T4",  1, B, 16, 0x1309),
	NVIDIA_TYPE(223, "GRID T4",  2, B,  8, 0x130a),
	NVIDIA_TYPE(225, "GRID T4",  1, A, 16, 0x1311),
	NVIDIA_TYPE(226, "GRID T4",  2, A,  8, 0x1312),
	NVIDIA_TYPE(227, "GRID T4",  4, A,  4, 0x1313),
	NVIDIA_TYPE(228, "GRID T4",  8, A,  2, 0x1314),
	NVIDIA_TYPE(229, "GRID T4", 16, A,  1, 0x1315),
	NVIDIA_TYPE(230, "GRID T4",  1, Q, 16, 0x130c),
	NVIDIA_TYPE(231, "GRID T4",  2, Q,  8, 0x130d),
	NVIDIA_TYPE(232, "GRID T4",  4, Q,  4, 0x130e),
	NVIDIA_TYPE(233, "GRID T4",  8, Q,  2, 0x130f),
	NVIDIA_TYPE(234, "GRID T4", 16, Q,  1, 0x1310),
	NVIDIA_TYPE(319, "GRID T4",  4, C,  4, 0x139a),
	NVIDIA_TYPE(320, "GRID T4",  8, C,  2, 0x139b),
	NVIDIA_TYPE(321, "GRID T4", 16, C,  1, 0x1375),
};

static const struct fake_type a10_types[] = {
	NVIDIA_TYPE(588, "NVIDIA A10",  1, B, 24, 0x14b6),
	NVIDIA_TYPE(589, "NVIDIA A10",  2, B, 12, 0x14b7),
	NVIDIA_TYPE(590, "NVIDIA A10",  1, Q, 24, 0x14b8),
	NVIDIA_TYPE(591, "NVIDIA A10",  2, Q, 12, 0x14b9),
	NVIDIA_TYPE(592, "NVIDIA A10",  3, Q,  8, 0x14ba),
	NVIDIA_TYPE(593, "NVIDIA A10",  4, Q,  6, 0x14bb),
	NVIDIA_TYPE(594, "NVIDIA A10",  6, Q,  4, 0x14bc),
	NVIDIA_TYPE(595, "NVIDIA A10",  8, Q,  3, 0x14bd),
	NVIDIA_TYPE(596, "NVIDIA A10", 12, Q,  2, 0x14be),
	NVIDIA_TYPE(597, "NVIDIA A10", 24, Q,  1, 0x14bf),
	NVIDIA_TYPE(598, "NVIDIA A10",  1, A, 24, 0x14c0),
	NVIDIA_TYPE(599, "NVIDIA A10",  2, A, 12, 0x14c1),
	NVIDIA_TYPE(600, "NVIDIA A10",  3, A,  8, 0x14c2),
	NVIDIA_TYPE(601, "NVIDIA A10",  4, A,  6, 0x14c3),
	NVIDIA_TYPE(602, "NVIDIA A10",  6, A,  4, 0x14c4),
	NVIDIA_TYPE(603, "NVIDIA A10",  8, A,  3, 0x14c5),
	NVIDIA_TYPE(604, "NVIDIA A10", 12, A,  2, 0x14c6),
	NVIDIA_TYPE(605, "NVIDIA A10", 24, A,  1, 0x14c7),
	NVIDIA_TYPE(610, "NVIDIA A10",  4, C,  6, 0x14d0),
	NVIDIA_TYPE(611, "NVIDIA A10",  6, C,  4, 0x14d1),
	NVIDIA_TYPE(612, "NVIDIA A10",  8, C,  3, 0x14d2),
	NVIDIA_TYPE(613, "NVIDIA A10", 12, C,  2, 0x14d3),
	NVIDIA_TYPE(614, "NVIDIA A10", 24, C,  1, 0x14d4),
};

/* The numbers of the C series are not known, so there is none. */
static const struct fake_type l40s_types[] = {
	NVIDIA_TYPE(1145, "NVIDIA L40S",  1, B, 32, 0x1889),
	NVIDIA_TYPE(1146, "NVIDIA L40S",  2, B, 24, 0x188a),
	NVIDIA_TYPE(1147, "NVIDIA L40S",  1, Q, 32, 0x188b),
	NVIDIA_TYPE(1148, "NVIDIA L40S",  2, Q, 24, 0x188c),
	NVIDIA_TYPE(1149, "NVIDIA L40S",  3, Q, 16, 0x188d),
	NVIDIA_TYPE(1150, "NVIDIA L40S",  4, Q, 12, 0x188e),
	NVIDIA_TYPE(1151, "NVIDIA L40S",  6, Q,  8, 0x188f),
	NVIDIA_TYPE(1152, "NVIDIA L40S",  8, Q,  6, 0x1890),
	NVIDIA_TYPE(1153, "NVIDIA L40S", 12, Q,  4, 0x1891),
	NVIDIA_TYPE(1154, "NVIDIA L40S", 16, Q,  3, 0x1892),
	NVIDIA_TYPE(1155, "NVIDIA L40S", 24, Q,  2, 0x1893),
	NVIDIA_TYPE(1156, "NVIDIA L40S", 48, Q,  1, 0x1894),
	NVIDIA_TYPE(1157, "NVIDIA L40S",  1, A, 32, 0x1895),
	NVIDIA_TYPE(1158, "NVIDIA L40S",  2, A, 24, 0x1896),
	NVIDIA_TYPE(1159, "NVIDIA L40S",  3, A, 16, 0x1897),
	NVIDIA_TYPE(1160, "NVIDIA L40S",  4, A, 12, 0x1898),
	NVIDIA_TYPE(1161, "NVIDIA L40S",  6, A,  8, 0x1899),
	NVIDIA_TYPE(1162, "NVIDIA L40S",  8, A,  6, 0x189a),
	NVIDIA_TYPE(1163, "NVIDIA L40S", 12, A,  4, 0x189b),
	NVIDIA_TYPE(1164, "NVIDIA L40S", 16, A,  3, 0x189c),
	NVIDIA_TYPE(1165, "NVIDIA L40S", 24, A,  2, 0x189d),
	NVIDIA_TYPE(1166, "NVIDIA L40S", 48, A,  1, 0x189e),
	NVIDIA_TYPE(2164, "NVIDIA L40S",  3, B, 16, 0x21fe),
};

#define MIG_TYPE(_number, _gpu, _gb, _max, _subsystem, _profile) {	\
	.number = _number,						\
	.name = _gpu "-" #_gb "C",					\
	.series = 'C',							\
	.mib = _gb * 1024,						\
	.max = _max,							\
	.subsystem = _subsystem,					\
	.profile = _profile,						\
}

/* Of A100D-1-10CME and A100D-1-20C the numbers are not known. */
static const struct fake_type a100_types[] = {
	NVIDIA_TYPE(692, "GRID A100D",  4, C, 20, 0x1596),
	NVIDIA_TYPE(693, "GRID A100D",  8, C, 10, 0x1597),
	NVIDIA_TYPE(694, "GRID A100D", 10, C,  8, 0x1598),
	NVIDIA_TYPE(695, "GRID A100D", 16, C,  5, 0x1599),
	NVIDIA_TYPE(696, "GRID A100D", 20, C,  4, 0x159a),
	NVIDIA_TYPE(697, "GRID A100D", 40, C,  2, 0x159b),
	NVIDIA_TYPE(698, "GRID A100D", 80, C,  1, 0x159c),
	MIG_TYPE(699, "GRID A100D-1", 10, 7, 0x1591, A100_1G),
	MIG_TYPE(700, "GRID A100D-2", 20, 3, 0x1592, A100_2G),
	MIG_TYPE(701, "GRID A100D-3", 40, 2, 0x1593, A100_3G),
	MIG_TYPE(702, "GRID A100D-4", 40, 1, 0x1594, A100_4G),
	MIG_TYPE(703, "GRID A100D-7", 80, 1, 0x1595, A100_7G),
};

static const struct fake_type gvtg_types[] = {
	{ .name = "GVTg_V5_4", .mib = 512, .max = 4, .subsystem = 0x2015 },
	{ .name = "GVTg_V5_8", .mib = 256, .max = 8, .subsystem = 0x2015 },
};

#define FAKE_MAX_TYPES	ARRAY_SIZE(a10_types)
static_assert(ARRAY_SIZE(t4_types) <= FAKE_MAX_TYPES);
static_assert(ARRAY_SIZE(l40s_types) <= FAKE_MAX_TYPES);
static_assert(ARRAY_SIZE(a100_types) <= FAKE_MAX_TYPES);
static_assert(ARRAY_SIZE(gvtg_types) <= FAKE_MAX_TYPES);

#define CLASS_3D	(PCI_CLASS_DISPLAY_3D << 8)
#define CLASS_VGA	(PCI_CLASS_DISPLAY_VGA << 8)
#define TYPES(_types)	.types = _types, .ntypes = ARRAY_SIZE(_types)

#define PROFILES(_profiles)						\
	.profiles = _profiles, .nprofiles = ARRAY_SIZE(_profiles)

/* The first one that a device fits is what it is shown as. */
static const struct fake_board fake_boards[] = {
	{
		.name = "Tesla T4",
		.qemu_vendor = 0x1234, .qemu_device = 0x11e8,	/* edu */
		.vendor = 0x10de, .device = 0x1eb8,
		.subsystem_vendor = 0x10de, .subsystem_device = 0x12a2,
		.class = CLASS_3D, .scheme = FAKE_MDEV_ON_PF,
		.mib = 16384, TYPES(t4_types),
	}, {
		.name = "A100 80GB PCIe",
		.qemu_vendor = 0x1b36, .qemu_device = 0x0010,	/* nvme */
		.vfs = 5,
		.vendor = 0x10de, .device = 0x20b5,
		.subsystem_vendor = 0x10de, .subsystem_device = 0x1533,
		.class = CLASS_3D, .scheme = FAKE_MDEV_ON_VF,
		.mib = 81920, TYPES(a100_types), PROFILES(a100_profiles),
	}, {
		.name = "A10",
		.qemu_vendor = 0x1b36, .qemu_device = 0x0010,	/* nvme */
		.vendor = 0x10de, .device = 0x2236,
		.subsystem_vendor = 0x10de, .subsystem_device = 0x1482,
		.class = CLASS_3D, .scheme = FAKE_MDEV_ON_VF,
		.mib = 24576, TYPES(a10_types),
	}, {
		.name = "L40S",
		.qemu_vendor = 0x8086, .qemu_device = 0x5845,	/* nvme,use-intel-id=on */
		.vendor = 0x10de, .device = 0x26b9,
		.subsystem_vendor = 0x10de, .subsystem_device = 0x1851,
		.class = CLASS_3D, .scheme = FAKE_VFIO_ON_VF,
		.mib = 49152, TYPES(l40s_types),
	}, {
		.name = "HD Graphics 530",
		.qemu_vendor = 0x1b36, .qemu_device = 0x0005,	/* pci-testdev */
		.vendor = 0x8086, .device = 0x191b,
		.subsystem_vendor = 0x8086, .subsystem_device = 0x2015,
		.class = CLASS_VGA, .scheme = FAKE_MDEV_ON_PF,
		.mib = 2048, .heterogeneous = true, TYPES(gvtg_types),
	},
};

/* ------------------------------------------------------------------------
 * Physical GPUs and how much of them is taken
 *
 * A GPU is remembered by its address until the module goes: what it was told
 * by way of its knobs outlasts the driver of a day, such as pci-pf-stub.
 */

struct fake_gpu {
	struct list_head list;
	char address[16];
	const struct fake_board *board;
	struct mutex lock;	/* for all of what follows */
	unsigned int used[FAKE_MAX_TYPES];
	unsigned int total;	/* vGPUs */
	unsigned int in_use;	/* vGPUs that a guest has */
	bool heterogeneous;
	unsigned int create_errno;
	unsigned int delay_ms;
	struct fake_mig mig;
	struct list_head listed;
};

static LIST_HEAD(fake_gpus);
static DEFINE_MUTEX(fake_gpus_lock);

/* A function of a PCI device that vGPUs can be on. */
struct fake_function {
	struct pci_dev *pdev;
	struct fake_gpu *gpu;
	unsigned int vgpus;
	struct fake_instance *instance;	/* of the vGPU, in MIG mode */
	struct delayed_work publish;
	bool published;
};

static unsigned int fake_number(const struct fake_type *type)
{
	return type->number + id_offset;
}

static const struct fake_board *fake_find_board(struct pci_dev *pdev)
{
	struct pci_dev *pf = pci_physfn(pdev);
	int i;

	for (i = 0; i < ARRAY_SIZE(fake_boards); i++) {
		const struct fake_board *board = &fake_boards[i];
		bool qemu = pf->vendor == board->qemu_vendor &&
			    pf->device == board->qemu_device &&
			    (!board->vfs ||
			     board->vfs == pci_sriov_get_totalvfs(pf));
		bool ours = pf->vendor == board->vendor &&
			    pf->device == board->device;

		/* An nvme without virtual functions is a disk. */
		if ((qemu || ours) && (board->scheme == FAKE_MDEV_ON_PF ||
				       pci_sriov_get_totalvfs(pf)))
			return board;
	}
	return NULL;
}

/* Whether the GPU at an address is told to begin in MIG mode. */
static bool fake_begins_divided(const char *address)
{
	const char *at = strstr(mig, address);

	return at && strchr(",", at[strlen(address)]);	/* or the end */
}

/* The GPU that a function is of; NULL if there is no memory. */
static struct fake_gpu *fake_get_gpu(struct pci_dev *pdev,
				     const struct fake_board *board)
{
	const char *address = pci_name(pci_physfn(pdev));
	struct fake_gpu *gpu;

	guard(mutex)(&fake_gpus_lock);
	list_for_each_entry(gpu, &fake_gpus, list)
		if (gpu->board == board && !strcmp(gpu->address, address))
			return gpu;
	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return NULL;
	strscpy(gpu->address, address);
	gpu->board = board;
	mutex_init(&gpu->lock);
	gpu->heterogeneous = board->heterogeneous;
	gpu->delay_ms = delay_ms;
	gpu->mig.on = board->profiles && fake_begins_divided(address);
	INIT_LIST_HEAD(&gpu->listed);
	list_add(&gpu->list, &fake_gpus);
	return gpu;
}

static void fake_forget_gpus(void)
{
	struct fake_gpu *gpu, *next;

	list_for_each_entry_safe(gpu, next, &fake_gpus, list)
		kfree(gpu);
}

/* How many more of a type fit on a GPU that shares its time. */
static unsigned int fake_fit_in_time(const struct fake_gpu *gpu,
				     unsigned int index)
{
	const struct fake_type *types = gpu->board->types;
	unsigned int i, fit, mib = 0, alike = 0;

	for (i = 0; i < gpu->board->ntypes; i++) {
		mib += gpu->used[i] * types[i].mib;
		if (types[i].mib == types[index].mib)
			alike += gpu->used[i];
	}
	if (!gpu->heterogeneous && alike != gpu->total)
		return 0;	/* one size of frame buffer for all */
	fit = types[index].max - min(types[index].max, alike);
	if (gpu->heterogeneous)
		fit = min(fit, (gpu->board->mib - mib) / types[index].mib);
	return fit;
}

/* How many more of a type fit on a GPU, whatever its functions have. */
static unsigned int fake_fit(struct fake_gpu *gpu, unsigned int index)
{
	const struct fake_profile *profile = gpu->board->types[index].profile;

	lockdep_assert_held(&gpu->lock);
	if (!profile != !gpu->mig.on)
		return 0;
	if (profile)
		return fake_mig_find(&gpu->mig, profile) ? 1 : 0;
	return fake_fit_in_time(gpu, index);
}

/* How many more of a type fit on a function. */
static unsigned int fake_available(const struct fake_function *function,
				   unsigned int index)
{
	unsigned int fit = fake_fit(function->gpu, index);

	if (function->pdev->is_virtfn)
		fit = function->vgpus ? 0 : min(fit, 1);
	return fit;
}

static int fake_take(struct fake_function *function, unsigned int index)
{
	struct fake_gpu *gpu = function->gpu;

	lockdep_assert_held(&gpu->lock);
	if (gpu->create_errno)
		return -gpu->create_errno;
	if (!fake_available(function, index))
		return -ENOSPC;
	if (gpu->mig.on) {
		function->instance = fake_mig_find(&gpu->mig,
						   gpu->board->types[index].profile);
		function->instance->has_vgpu = true;
	}
	function->vgpus++;
	gpu->used[index]++;
	gpu->total++;
	return 0;
}

static void fake_give_back(struct fake_function *function, unsigned int index)
{
	struct fake_gpu *gpu = function->gpu;

	lockdep_assert_held(&gpu->lock);
	if (function->instance)
		function->instance->has_vgpu = false;
	function->instance = NULL;
	function->vgpus--;
	gpu->used[index]--;
	gpu->total--;
}

/* ------------------------------------------------------------------------
 * Knobs: the directory fakevgpu/ of a physical function
 */

static struct fake_gpu *fake_gpu_of(struct device *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev);

	return fake_get_gpu(pdev, fake_find_board(pdev));
}

static ssize_t heterogeneous_show(struct device *dev,
				  struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", fake_gpu_of(dev)->heterogeneous);
}

static ssize_t heterogeneous_store(struct device *dev,
				   struct device_attribute *attr,
				   const char *buf, size_t count)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	bool wanted;
	int ret = kstrtobool(buf, &wanted);

	if (ret)
		return ret;
	guard(mutex)(&gpu->lock);
	if (wanted != gpu->heterogeneous && gpu->total)
		return -EBUSY;
	gpu->heterogeneous = wanted;
	return count;
}
static DEVICE_ATTR_RW(heterogeneous);

static ssize_t create_errno_show(struct device *dev,
				 struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", fake_gpu_of(dev)->create_errno);
}

static ssize_t create_errno_store(struct device *dev,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	unsigned int number;
	int ret = kstrtouint(buf, 0, &number);

	if (ret)
		return ret;
	if (number > EHWPOISON)		/* the last that a program can see */
		return -ERANGE;
	guard(mutex)(&gpu->lock);
	gpu->create_errno = number;
	return count;
}
static DEVICE_ATTR_RW(create_errno);

static ssize_t delay_ms_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%u\n", fake_gpu_of(dev)->delay_ms);
}

static ssize_t delay_ms_store(struct device *dev,
			      struct device_attribute *attr, const char *buf,
			      size_t count)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	unsigned int number;
	int ret = kstrtouint(buf, 0, &number);

	if (ret)
		return ret;
	guard(mutex)(&gpu->lock);
	gpu->delay_ms = number;
	return count;
}
static DEVICE_ATTR_RW(delay_ms);

static ssize_t vgpus_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%u\n", fake_gpu_of(dev)->total);
}
static DEVICE_ATTR_RO(vgpus);

static ssize_t in_use_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%u\n", fake_gpu_of(dev)->in_use);
}
static DEVICE_ATTR_RO(in_use);

static struct attribute *fake_knobs[] = {
	&dev_attr_heterogeneous.attr,
	&dev_attr_create_errno.attr,
	&dev_attr_delay_ms.attr,
	&dev_attr_vgpus.attr,
	&dev_attr_in_use.attr,
	NULL
};

static const struct attribute_group fake_knobs_group = {
	.name = "fakevgpu",
	.attrs = fake_knobs,
};

/* ------------------------------------------------------------------------
 * What the library that stands in for NVML reads, see ../fakenvml/README.rst
 *
 * A physical function of NVIDIA's has a directory fakenvml/ with its files;
 * /proc/driver/fakenvml has those of the host, and links to the GPUs.
 */

/* A vGPU. */
struct fake_listed {
	struct list_head list;
	unsigned int number;
	unsigned int index;	/* of its type */
	const struct fake_function *function;
	const char *uuid;	/* of its mdev, if it is one */
	pid_t pid;		/* of the virtual machine that has it */
};

#define FAKE_PROC		"driver/fakenvml"
#define FAKE_DRIVER_VERSION	"595.58.03"

static unsigned int fake_listed_so_far;
static struct proc_dir_entry *fake_proc, *fake_proc_gpus;

static void fake_list(struct fake_listed *listed,
		      const struct fake_function *function, unsigned int index,
		      const char *uuid)
{
	lockdep_assert_held(&function->gpu->lock);
	*listed = (struct fake_listed){
		.number = ++fake_listed_so_far, .index = index,
		.function = function, .uuid = uuid,
	};
	list_add_tail(&listed->list, &function->gpu->listed);
}

static void fake_open(struct fake_gpu *gpu, struct fake_listed *listed)
{
	lockdep_assert_held(&gpu->lock);
	gpu->in_use++;
	listed->pid = task_tgid_nr(current);
}

static void fake_close(struct fake_gpu *gpu, struct fake_listed *listed)
{
	lockdep_assert_held(&gpu->lock);
	gpu->in_use--;
	listed->pid = 0;
}

static ssize_t nvml_name_show(struct device *dev,
			      struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "NVIDIA %s\n", fake_gpu_of(dev)->board->name);
}

static ssize_t nvml_vfs_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%d\n", pci_num_vf(to_pci_dev(dev)));
}

static ssize_t nvml_types_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	const struct fake_board *board = fake_gpu_of(dev)->board;
	unsigned int i, mode, place;
	int len = 0;

	for (i = 0; i < board->ntypes; i++) {
		const struct fake_type *type = &board->types[i];
		unsigned int slots = type->mib / 1024;

		len += sysfs_emit_at(buf, len, "%u %u", fake_number(type),
				     type->max);
		/* In both modes alike; on GPU instances there are none. */
		for (mode = 0; mode < 2 && !type->profile; mode++) {
			len += sysfs_emit_at(buf, len, " %u 0", slots);
			for (place = 1; place < type->max; place++)
				len += sysfs_emit_at(buf, len, ",%u",
						     place * slots);
		}
		len += sysfs_emit_at(buf, len, "\n");
	}
	return len;
}

static ssize_t nvml_creatable_show(struct device *dev,
				   struct device_attribute *attr, char *buf)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	unsigned int i;
	int len = 0;

	guard(mutex)(&gpu->lock);
	for (i = 0; i < gpu->board->ntypes; i++)
		if (fake_fit(gpu, i))
			len += sysfs_emit_at(buf, len, "%u\n",
					     fake_number(&gpu->board->types[i]));
	return len;
}

static ssize_t nvml_vgpus_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	struct fake_listed *listed;
	int len = 0;

	guard(mutex)(&gpu->lock);
	list_for_each_entry(listed, &gpu->listed, list) {
		struct fake_instance *instance = listed->function->instance;

		len += sysfs_emit_at(buf, len, "%u %u", listed->number,
				     fake_number(&gpu->board->types[listed->index]));
		if (listed->pid)
			len += sysfs_emit_at(buf, len, " pid:%d", listed->pid);
		else
			len += sysfs_emit_at(buf, len, " -");
		len += sysfs_emit_at(buf, len, " %s -",
				     listed->uuid ? listed->uuid : "-");
		if (instance)
			len += sysfs_emit_at(buf, len, " %u\n",
					     fake_mig_id(&gpu->mig, instance));
		else
			len += sysfs_emit_at(buf, len, " -\n");
	}
	return len;
}

static ssize_t mig_show(struct device *dev, struct device_attribute *attr,
			char *buf)
{
	bool on = fake_gpu_of(dev)->mig.on;

	return sysfs_emit(buf, "%d %d\n", on, on);
}

static ssize_t mig_store(struct device *dev, struct device_attribute *attr,
			 const char *buf, size_t count)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	bool wanted;
	int ret = kstrtobool(buf, &wanted);

	if (ret)
		return ret;
	guard(mutex)(&gpu->lock);
	if (wanted == gpu->mig.on)
		return count;
	if (pci_num_vf(to_pci_dev(dev)) || gpu->total)
		return -EBUSY;
	fake_mig_clear(&gpu->mig);
	gpu->mig.on = wanted;
	return count;
}
static DEVICE_ATTR_RW(mig);

static ssize_t profiles_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	const struct fake_board *board = fake_gpu_of(dev)->board;

	return fake_mig_show_profiles(board->profiles, board->nprofiles, buf);
}
static DEVICE_ATTR_RO(profiles);

static ssize_t instances_show(struct device *dev,
			      struct device_attribute *attr, char *buf)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);

	guard(mutex)(&gpu->lock);
	return fake_mig_show_instances(&gpu->mig, buf);
}

static ssize_t instances_store(struct device *dev,
			       struct device_attribute *attr, const char *buf,
			       size_t count)
{
	struct fake_gpu *gpu = fake_gpu_of(dev);
	int ret;

	guard(mutex)(&gpu->lock);
	ret = fake_mig_run(&gpu->mig, gpu->board->profiles,
			   gpu->board->nprofiles, buf);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(instances);

#define FAKE_NVML(_name)						\
static struct device_attribute dev_attr_nvml_##_name =			\
	__ATTR(_name, 0444, nvml_##_name##_show, NULL)
FAKE_NVML(name);
FAKE_NVML(vfs);
FAKE_NVML(types);
FAKE_NVML(creatable);
FAKE_NVML(vgpus);

static struct attribute *fake_nvml_attrs[] = {
	&dev_attr_nvml_name.attr,
	&dev_attr_nvml_vfs.attr,
	&dev_attr_nvml_types.attr,
	&dev_attr_nvml_creatable.attr,
	&dev_attr_nvml_vgpus.attr,
	&dev_attr_heterogeneous.attr,
	&dev_attr_mig.attr,
	&dev_attr_profiles.attr,
	&dev_attr_instances.attr,
	NULL
};

static umode_t fake_nvml_visible(struct kobject *kobj, struct attribute *attr,
				 int n)
{
	const struct fake_board *board = fake_gpu_of(kobj_to_dev(kobj))->board;

	if (attr == &dev_attr_heterogeneous.attr)
		return board->scheme == FAKE_MDEV_ON_PF ? 0 : attr->mode;
	if (attr == &dev_attr_mig.attr || attr == &dev_attr_profiles.attr ||
	    attr == &dev_attr_instances.attr)
		return board->profiles ? attr->mode : 0;
	return attr->mode;
}

static const struct attribute_group fake_nvml_group = {
	.name = "fakenvml",
	.attrs = fake_nvml_attrs,
	.is_visible = fake_nvml_visible,
};

static bool fake_is_nvidia(const struct fake_board *board)
{
	return board->vendor == 0x10de;
}

/* The library sees a GPU for as long as it is with its driver. */
static int fake_show_to_nvml(struct pci_dev *pdev)
{
	char *target;
	int ret = sysfs_create_group(&pdev->dev.kobj, &fake_nvml_group);

	if (ret)
		return ret;
	target = kasprintf(GFP_KERNEL, "/sys/bus/pci/devices/%s/fakenvml",
			   pci_name(pdev));
	if (!target || !proc_symlink(pci_name(pdev), fake_proc_gpus, target)) {
		sysfs_remove_group(&pdev->dev.kobj, &fake_nvml_group);
		ret = -ENOMEM;
	}
	kfree(target);
	return ret;
}

static void fake_hide_from_nvml(struct pci_dev *pdev)
{
	remove_proc_entry(pci_name(pdev), fake_proc_gpus);
	sysfs_remove_group(&pdev->dev.kobj, &fake_nvml_group);
}

static int fake_version_show(struct seq_file *file, void *unused)
{
	seq_puts(file, FAKE_DRIVER_VERSION "\n");
	return 0;
}

static int fake_types_show(struct seq_file *file, void *unused)
{
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(fake_boards); i++) {
		const struct fake_board *board = &fake_boards[i];

		if (!fake_is_nvidia(board))
			continue;
		for (j = 0; j < board->ntypes; j++) {
			const struct fake_type *type = &board->types[j];

			seq_printf(file, "%u ", fake_number(type));
			if (type->profile)
				seq_printf(file, "%u %u 1", type->profile->id,
					   type->mib);
			else
				seq_printf(file, "- %u -", type->mib);
			seq_printf(file, " 16 %s %s\n",
				   type->series == 'C' ? "Compute" : "Quadro",
				   type->name);
		}
	}
	return 0;
}

static int fake_show_host_to_nvml(void)
{
	fake_proc = proc_mkdir(FAKE_PROC, NULL);
	if (!fake_proc)
		return -ENOMEM;
	fake_proc_gpus = proc_mkdir("gpus", fake_proc);
	if (fake_proc_gpus &&
	    proc_create_single("driver_version", 0444, fake_proc,
			       fake_version_show) &&
	    proc_create_single("types", 0444, fake_proc, fake_types_show))
		return 0;
	proc_remove(fake_proc);
	return -ENOMEM;
}

/* ------------------------------------------------------------------------
 * mdev: a VFIO device that is a PCI configuration space
 */

struct fake_mdev_type {
	struct mdev_type mdev_type;
	char number[12];
	unsigned int index;
};

struct fake_parent {
	struct fake_function function;
	struct mdev_parent mdev_parent;
	struct fake_mdev_type types[FAKE_MAX_TYPES];
	struct mdev_type *mdev_types[FAKE_MAX_TYPES];
};

struct fake_vgpu {
	struct vfio_device vdev;
	struct fake_function *function;
	unsigned int index;
	struct fake_listed listed;
	char params[256];
	u8 config[PCI_CFG_SPACE_SIZE];
};

#define FAKE_REGION_SHIFT	40
#define FAKE_REGION(_index)	((u64)(_index) << FAKE_REGION_SHIFT)

static void fake_fill_config(struct fake_vgpu *vgpu)
{
	const struct fake_board *board = vgpu->function->gpu->board;
	const struct fake_type *type = &board->types[vgpu->index];
	u8 *config = vgpu->config;

	put_unaligned_le16(board->vendor, config + PCI_VENDOR_ID);
	put_unaligned_le16(board->device, config + PCI_DEVICE_ID);
	/* Not VGA as on a real one: QEMU 10.0 crashed with that. */
	put_unaligned_le16(PCI_CLASS_DISPLAY_3D, config + PCI_CLASS_DEVICE);
	put_unaligned_le16(board->subsystem_vendor,
			   config + PCI_SUBSYSTEM_VENDOR_ID);
	put_unaligned_le16(type->subsystem, config + PCI_SUBSYSTEM_ID);
	if (!type->number)
		return;
	/* By this a guest tells a vGPU of NVIDIA from a GPU. */
	put_unaligned_le16(PCI_STATUS_CAP_LIST, config + PCI_STATUS);
	config[PCI_CAPABILITY_LIST] = PCI_STD_HEADER_SIZEOF;
	config += PCI_STD_HEADER_SIZEOF;
	config[0] = PCI_CAP_ID_VNDR;
	config[2] = 0x20;
	memcpy(config + 3, "VF", 2);
}

static int fake_vgpu_open(struct vfio_device *vdev)
{
	struct fake_vgpu *vgpu = container_of(vdev, struct fake_vgpu, vdev);

	guard(mutex)(&vgpu->function->gpu->lock);
	fake_open(vgpu->function->gpu, &vgpu->listed);
	return 0;
}

static void fake_vgpu_close(struct vfio_device *vdev)
{
	struct fake_vgpu *vgpu = container_of(vdev, struct fake_vgpu, vdev);

	guard(mutex)(&vgpu->function->gpu->lock);
	fake_close(vgpu->function->gpu, &vgpu->listed);
}

/* The part of the configuration space that is asked for; NULL if none is. */
static u8 *fake_config_at(struct fake_vgpu *vgpu, size_t count, loff_t offset)
{
	u64 base = FAKE_REGION(VFIO_PCI_CONFIG_REGION_INDEX);

	if (offset < base || offset - base >= PCI_CFG_SPACE_SIZE ||
	    count > PCI_CFG_SPACE_SIZE - (offset - base))
		return NULL;
	return vgpu->config + (offset - base);
}

static ssize_t fake_vgpu_read(struct vfio_device *vdev, char __user *buf,
			      size_t count, loff_t *ppos)
{
	struct fake_vgpu *vgpu = container_of(vdev, struct fake_vgpu, vdev);
	u8 *config = fake_config_at(vgpu, count, *ppos);

	if (!config)
		return -EINVAL;
	if (copy_to_user(buf, config, count))
		return -EFAULT;
	*ppos += count;
	return count;
}

static ssize_t fake_vgpu_write(struct vfio_device *vdev,
			       const char __user *buf, size_t count,
			       loff_t *ppos)
{
	struct fake_vgpu *vgpu = container_of(vdev, struct fake_vgpu, vdev);
	u8 *config = fake_config_at(vgpu, count, *ppos);

	if (!config)
		return -EINVAL;
	/* QEMU wants the command register to be as it left it, no other. */
	if (config == vgpu->config + PCI_COMMAND && count == sizeof(u16) &&
	    copy_from_user(config, buf, count))
		return -EFAULT;
	*ppos += count;
	return count;
}

static long fake_get_info(void __user *arg)
{
	size_t size = offsetofend(struct vfio_device_info, num_irqs);
	struct vfio_device_info info;

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long fake_get_region_info(void __user *arg)
{
	size_t size = offsetofend(struct vfio_region_info, offset);
	struct vfio_region_info info;

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_REGIONS)
		return -EINVAL;
	info.offset = FAKE_REGION(info.index);
	info.size = 0;
	info.flags = 0;
	if (info.index == VFIO_PCI_CONFIG_REGION_INDEX) {
		info.size = PCI_CFG_SPACE_SIZE;
		info.flags = VFIO_REGION_INFO_FLAG_READ |
			     VFIO_REGION_INFO_FLAG_WRITE;
	}
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long fake_get_irq_info(void __user *arg)
{
	size_t size = offsetofend(struct vfio_irq_info, count);
	struct vfio_irq_info info;

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	/* Without PCI Express there are no errors to tell of. */
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_IRQS ||
	    info.index == VFIO_PCI_ERR_IRQ_INDEX)
		return -EINVAL;
	info.flags = VFIO_IRQ_INFO_EVENTFD;
	info.count = 0;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long fake_vgpu_ioctl(struct vfio_device *vdev, unsigned int cmd,
			    unsigned long arg)
{
	switch (cmd) {
	case VFIO_DEVICE_GET_INFO:
		return fake_get_info((void __user *)arg);
	case VFIO_DEVICE_GET_REGION_INFO:
		return fake_get_region_info((void __user *)arg);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return fake_get_irq_info((void __user *)arg);
	case VFIO_DEVICE_RESET:
		return 0;
	default:
		return -ENOTTY;
	}
}

static const struct vfio_device_ops fake_vgpu_ops = {
	.name = "fakevgpu-mdev",
	.open_device = fake_vgpu_open,
	.close_device = fake_vgpu_close,
	.read = fake_vgpu_read,
	.write = fake_vgpu_write,
	.ioctl = fake_vgpu_ioctl,
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
};

static struct fake_function *fake_function_of(struct mdev_type *mdev_type)
{
	return &container_of(mdev_type->parent, struct fake_parent,
			     mdev_parent)->function;
}

static unsigned int fake_index_of(struct mdev_type *mdev_type)
{
	return container_of(mdev_type, struct fake_mdev_type, mdev_type)->index;
}

static void fake_drop(struct fake_function *function, unsigned int index,
		      struct fake_listed *listed)
{
	guard(mutex)(&function->gpu->lock);
	if (listed)
		list_del(&listed->list);
	fake_give_back(function, index);
}

static int fake_mdev_probe(struct mdev_device *mdev)
{
	struct fake_function *function = fake_function_of(mdev->type);
	unsigned int index = fake_index_of(mdev->type);
	struct fake_vgpu *vgpu;
	int ret;

	scoped_guard(mutex, &function->gpu->lock)
		ret = fake_take(function, index);
	if (ret)
		return ret;
	vgpu = vfio_alloc_device(fake_vgpu, vdev, &mdev->dev, &fake_vgpu_ops);
	if (IS_ERR(vgpu)) {
		fake_drop(function, index, NULL);
		return PTR_ERR(vgpu);
	}
	vgpu->function = function;
	vgpu->index = index;
	fake_fill_config(vgpu);
	dev_set_drvdata(&mdev->dev, vgpu);
	scoped_guard(mutex, &function->gpu->lock)
		fake_list(&vgpu->listed, function, index, dev_name(&mdev->dev));
	ret = vfio_register_emulated_iommu_dev(&vgpu->vdev);
	if (ret) {
		fake_drop(function, index, &vgpu->listed);
		vfio_put_device(&vgpu->vdev);
	}
	return ret;
}

static void fake_mdev_remove(struct mdev_device *mdev)
{
	struct fake_vgpu *vgpu = dev_get_drvdata(&mdev->dev);
	struct fake_function *function = vgpu->function;
	unsigned int index = vgpu->index;

	/* Waits for the guest that has it. It counts for as long. */
	vfio_unregister_group_dev(&vgpu->vdev);
	fake_drop(function, index, &vgpu->listed);
	vfio_put_device(&vgpu->vdev);
}

static unsigned int fake_get_available(struct mdev_type *mdev_type)
{
	struct fake_function *function = fake_function_of(mdev_type);

	guard(mutex)(&function->gpu->lock);
	return fake_available(function, fake_index_of(mdev_type));
}

static ssize_t nvidia_show_description(struct mdev_type *mdev_type, char *buf)
{
	const struct fake_board *board = fake_function_of(mdev_type)->gpu->board;
	const struct fake_type *type = &board->types[fake_index_of(mdev_type)];
	const char *resolution = "7680x4320";
	unsigned int heads = 4;

	switch (type->series) {
	case 'A':
		heads = 1;
		resolution = "1280x1024";
		break;
	case 'B':
		resolution = "5120x2880";
		break;
	case 'C':
		heads = 1;
		resolution = "4096x2160";
		break;
	}
	return sysfs_emit(buf, "num_heads=%u, frl_config=60, framebuffer=%uM, max_resolution=%s, max_instance=%u\n",
			  heads, type->mib, resolution, type->max);
}

static ssize_t i915_show_description(struct mdev_type *mdev_type, char *buf)
{
	const struct fake_board *board = fake_function_of(mdev_type)->gpu->board;
	const struct fake_type *type = &board->types[fake_index_of(mdev_type)];

	return sysfs_emit(buf, "low_gm_size: 128MB\nhigh_gm_size: %uMB\nfence: 4\nresolution: %s\nweight: %u\n",
			  type->mib, type->mib < 512 ? "1024x768" : "1920x1200",
			  16 / type->max);
}

/* The directory nvidia/ of an mdev. */
static ssize_t params_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	struct fake_vgpu *vgpu = dev_get_drvdata(dev);

	guard(mutex)(&vgpu->function->gpu->lock);
	return sysfs_emit(buf, "%s\n", vgpu->params);
}

static ssize_t params_store(struct device *dev, struct device_attribute *attr,
			    const char *buf, size_t count)
{
	struct fake_vgpu *vgpu = dev_get_drvdata(dev);

	guard(mutex)(&vgpu->function->gpu->lock);
	if (count >= sizeof(vgpu->params))
		return -EINVAL;
	strscpy(vgpu->params, buf);
	strim(vgpu->params);
	return count;
}

static struct device_attribute dev_attr_params =
	__ATTR(vgpu_params, 0644, params_show, params_store);

static struct attribute *fake_mdev_attrs[] = {
	&dev_attr_params.attr,
	NULL
};

static const struct attribute_group fake_mdev_group = {
	.name = "nvidia",
	.attrs = fake_mdev_attrs,
};

static const struct attribute_group *fake_mdev_groups[] = {
	&fake_mdev_group,
	NULL
};

static struct mdev_driver nvidia_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.driver = {
		.name = "nvidia-vgpu-vfio",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = fake_mdev_groups,
	},
	.probe = fake_mdev_probe,
	.remove = fake_mdev_remove,
	.get_available = fake_get_available,
	.show_description = nvidia_show_description,
};

static struct mdev_driver i915_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.driver = {
		.name = "intel_vgpu_mdev",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
	},
	.probe = fake_mdev_probe,
	.remove = fake_mdev_remove,
	.get_available = fake_get_available,
	.show_description = i915_show_description,
};

static int fake_publish_mdev(struct fake_parent *parent)
{
	struct fake_function *function = &parent->function;
	const struct fake_board *board = function->gpu->board;
	struct mdev_driver *driver = &i915_mdev_driver;
	unsigned int i;

	for (i = 0; i < board->ntypes; i++) {
		struct fake_mdev_type *type = &parent->types[i];

		type->index = i;
		type->mdev_type.sysfs_name = board->types[i].name;
		if (board->types[i].number) {
			snprintf(type->number, sizeof(type->number), "%u",
				 fake_number(&board->types[i]));
			type->mdev_type.sysfs_name = type->number;
			type->mdev_type.pretty_name = board->types[i].name;
			driver = &nvidia_mdev_driver;
		}
		parent->mdev_types[i] = &type->mdev_type;
	}
	return mdev_register_parent(&parent->mdev_parent, &function->pdev->dev,
				    driver, parent->mdev_types, board->ntypes);
}

/* ------------------------------------------------------------------------
 * Vendor-specific VFIO: a virtual function that is given to a guest itself
 */

enum fake_setting {
	FAKE_GPU_INSTANCE_ID,
	FAKE_PLACEMENT_ID,
	FAKE_WARM_UPDATE,
	FAKE_SETTINGS,
};

struct fake_vf {
	/* The first member, and the data of the PCI driver: VFIO wants both. */
	struct vfio_pci_core_device core;
	struct fake_function function;
	const struct fake_type *type;
	struct fake_listed listed;
	bool open;
	char params[256];
	bool is_set[FAKE_SETTINGS];
	unsigned int settings[FAKE_SETTINGS];
};

static unsigned int fake_vf_index(const struct fake_vf *vf)
{
	return vf->type - vf->function.gpu->board->types;
}

static void fake_clear_type(struct fake_vf *vf)
{
	lockdep_assert_held(&vf->function.gpu->lock);
	if (vf->type) {
		list_del(&vf->listed.list);
		fake_give_back(&vf->function, fake_vf_index(vf));
	}
	vf->type = NULL;
	vf->params[0] = '\0';
	memset(vf->is_set, 0, sizeof(vf->is_set));
}

static int fake_set_type(struct fake_vf *vf, unsigned int number)
{
	const struct fake_board *board = vf->function.gpu->board;
	unsigned int i;
	int ret;

	lockdep_assert_held(&vf->function.gpu->lock);
	if (vf->open)
		return -EBUSY;
	if (!number) {
		fake_clear_type(vf);
		return 0;
	}
	for (i = 0; i < board->ntypes; i++)
		if (fake_number(&board->types[i]) == number)
			break;
	if (i == board->ntypes)
		return -EINVAL;
	if (vf->type)
		return -EBUSY;	/* is to be cleared first */
	ret = fake_take(&vf->function, i);
	if (ret)
		return ret;
	vf->type = &board->types[i];
	fake_list(&vf->listed, &vf->function, i, NULL);
	return 0;
}

static ssize_t creatable_vgpu_types_show(struct device *dev,
					 struct device_attribute *attr,
					 char *buf)
{
	struct fake_vf *vf = dev_get_drvdata(dev);
	const struct fake_board *board = vf->function.gpu->board;
	int len = sysfs_emit(buf, "ID    : vGPU Name\n");
	unsigned int i;

	guard(mutex)(&vf->function.gpu->lock);
	for (i = 0; i < board->ntypes; i++)
		if (fake_available(&vf->function, i))
			len += sysfs_emit_at(buf, len, "%-5u : %s\n",
					     fake_number(&board->types[i]),
					     board->types[i].name);
	return len;
}
static DEVICE_ATTR_RO(creatable_vgpu_types);

static ssize_t current_vgpu_type_show(struct device *dev,
				      struct device_attribute *attr, char *buf)
{
	struct fake_vf *vf = dev_get_drvdata(dev);

	guard(mutex)(&vf->function.gpu->lock);
	return sysfs_emit(buf, "%u\n", vf->type ? fake_number(vf->type) : 0);
}

static ssize_t current_vgpu_type_store(struct device *dev,
				       struct device_attribute *attr,
				       const char *buf, size_t count)
{
	struct fake_vf *vf = dev_get_drvdata(dev);
	unsigned int number;
	int ret = kstrtouint(buf, 10, &number);

	if (ret)
		return ret;
	guard(mutex)(&vf->function.gpu->lock);
	ret = fake_set_type(vf, number);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(current_vgpu_type);

static ssize_t vgpu_params_show(struct device *dev,
				struct device_attribute *attr, char *buf)
{
	struct fake_vf *vf = dev_get_drvdata(dev);

	guard(mutex)(&vf->function.gpu->lock);
	return vf->type ? sysfs_emit(buf, "%s\n", vf->params) : 0;
}

static ssize_t vgpu_params_store(struct device *dev,
				 struct device_attribute *attr,
				 const char *buf, size_t count)
{
	struct fake_vf *vf = dev_get_drvdata(dev);

	guard(mutex)(&vf->function.gpu->lock);
	if (!vf->type)
		return -ENXIO;
	if (vf->open)
		return -EBUSY;
	if (count >= sizeof(vf->params))
		return -EINVAL;
	strscpy(vf->params, buf);
	strim(vf->params);
	return count;
}
static DEVICE_ATTR_RW(vgpu_params);

/* Numbers that are kept and mean nothing here. */
static enum fake_setting fake_setting_of(struct device_attribute *attr)
{
	return (enum fake_setting)(uintptr_t)
		container_of(attr, struct dev_ext_attribute, attr)->var;
}

static ssize_t fake_setting_show(struct device *dev,
				 struct device_attribute *attr, char *buf)
{
	enum fake_setting setting = fake_setting_of(attr);
	struct fake_vf *vf = dev_get_drvdata(dev);

	guard(mutex)(&vf->function.gpu->lock);
	if (!vf->is_set[setting])
		return -ENXIO;
	return sysfs_emit(buf, "%u\n", vf->settings[setting]);
}

static ssize_t fake_setting_store(struct device *dev,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	enum fake_setting setting = fake_setting_of(attr);
	struct fake_vf *vf = dev_get_drvdata(dev);
	unsigned int number;
	int ret = kstrtouint(buf, 10, &number);

	if (ret)
		return ret;
	guard(mutex)(&vf->function.gpu->lock);
	if (vf->open)
		return -EBUSY;
	vf->settings[setting] = number;
	vf->is_set[setting] = true;
	return count;
}

#define FAKE_SETTING(_name, _setting)					\
static struct dev_ext_attribute dev_attr_##_name = {			\
	.attr = __ATTR(_name, 0644, fake_setting_show,			\
		       fake_setting_store),				\
	.var = (void *)(uintptr_t)(_setting),				\
}
FAKE_SETTING(gpu_instance_id, FAKE_GPU_INSTANCE_ID);
FAKE_SETTING(placement_id, FAKE_PLACEMENT_ID);
FAKE_SETTING(warm_update, FAKE_WARM_UPDATE);

static struct attribute *fake_vf_attrs[] = {
	&dev_attr_creatable_vgpu_types.attr,
	&dev_attr_current_vgpu_type.attr,
	&dev_attr_gpu_instance_id.attr.attr,
	&dev_attr_placement_id.attr.attr,
	&dev_attr_vgpu_params.attr,
	&dev_attr_warm_update.attr.attr,
	NULL
};

static const struct attribute_group fake_vf_group = {
	.name = "nvidia",
	.attrs = fake_vf_attrs,
};

static int fake_vf_set_open(struct fake_vf *vf, bool open)
{
	struct fake_gpu *gpu = vf->function.gpu;

	guard(mutex)(&gpu->lock);
	if (open && !vf->type)
		return -ENODEV;	/* there is no vGPU on it */
	vf->open = open;
	if (open)
		fake_open(gpu, &vf->listed);
	else
		fake_close(gpu, &vf->listed);
	return 0;
}

static int fake_vf_open(struct vfio_device *vdev)
{
	struct fake_vf *vf = container_of(vdev, struct fake_vf, core.vdev);
	int ret = fake_vf_set_open(vf, true);

	if (ret)
		return ret;
	ret = vfio_pci_core_enable(&vf->core);
	if (ret) {
		fake_vf_set_open(vf, false);
		return ret;
	}
	vfio_pci_core_finish_enable(&vf->core);
	return 0;
}

static void fake_vf_close(struct vfio_device *vdev)
{
	struct fake_vf *vf = container_of(vdev, struct fake_vf, core.vdev);

	vfio_pci_core_close_device(vdev);
	fake_vf_set_open(vf, false);
}

static const struct vfio_device_ops fake_vf_ops = {
	.name = "fakevgpu-vf",
	.init = vfio_pci_core_init_dev,
	.release = vfio_pci_core_release_dev,
	.open_device = fake_vf_open,
	.close_device = fake_vf_close,
	.ioctl = vfio_pci_core_ioctl,
	.device_feature = vfio_pci_core_ioctl_feature,
	.read = vfio_pci_core_read,
	.write = vfio_pci_core_write,
	.mmap = vfio_pci_core_mmap,
	.request = vfio_pci_core_request,
	.match = vfio_pci_core_match,
	.bind_iommufd = vfio_iommufd_physical_bind,
	.unbind_iommufd = vfio_iommufd_physical_unbind,
	.attach_ioas = vfio_iommufd_physical_attach_ioas,
	.detach_ioas = vfio_iommufd_physical_detach_ioas,
};

/* ------------------------------------------------------------------------
 * Functions come and go
 */

static bool fake_is_vfio(const struct fake_function *function)
{
	return function->gpu->board->scheme == FAKE_VFIO_ON_VF;
}

static void fake_publish(struct work_struct *work)
{
	struct fake_function *function =
		container_of(work, struct fake_function, publish.work);
	struct pci_dev *pdev = function->pdev;
	int ret;

	if (fake_is_vfio(function))
		ret = sysfs_create_group(&pdev->dev.kobj, &fake_vf_group);
	else
		ret = fake_publish_mdev(container_of(function,
						     struct fake_parent,
						     function));
	if (ret)
		pci_err(pdev, "there will be no vGPU types: %d\n", ret);
	function->published = !ret;
}

static void fake_begin(struct fake_function *function)
{
	unsigned int delay;

	scoped_guard(mutex, &function->gpu->lock)
		delay = function->gpu->delay_ms;
	INIT_DELAYED_WORK(&function->publish, fake_publish);
	if (delay)
		schedule_delayed_work(&function->publish,
				      msecs_to_jiffies(delay));
	else
		fake_publish(&function->publish.work);
}

static int fake_probe_parent(struct pci_dev *pdev, struct fake_gpu *gpu)
{
	struct fake_parent *parent = kzalloc(sizeof(*parent), GFP_KERNEL);

	if (!parent)
		return -ENOMEM;
	parent->function.pdev = pdev;
	parent->function.gpu = gpu;
	pci_set_drvdata(pdev, parent);
	fake_begin(&parent->function);
	return 0;
}

static void fake_remove_parent(struct pci_dev *pdev)
{
	struct fake_parent *parent = pci_get_drvdata(pdev);

	cancel_delayed_work_sync(&parent->function.publish);
	if (parent->function.published)
		mdev_unregister_parent(&parent->mdev_parent);
	kfree(parent);
}

static int fake_probe_vf(struct pci_dev *pdev, struct fake_gpu *gpu)
{
	struct fake_vf *vf = vfio_alloc_device(fake_vf, core.vdev, &pdev->dev,
					       &fake_vf_ops);
	int ret;

	if (IS_ERR(vf))
		return PTR_ERR(vf);
	vf->function.pdev = pdev;
	vf->function.gpu = gpu;
	pci_set_drvdata(pdev, &vf->core);
	ret = vfio_pci_core_register_device(&vf->core);
	if (ret) {
		vfio_put_device(&vf->core.vdev);
		return ret;
	}
	fake_begin(&vf->function);
	return 0;
}

static void fake_remove_vf(struct pci_dev *pdev)
{
	struct fake_vf *vf = pci_get_drvdata(pdev);

	cancel_delayed_work_sync(&vf->function.publish);
	if (vf->function.published)
		sysfs_remove_group(&pdev->dev.kobj, &fake_vf_group);
	/* Waits for the guest that has it. */
	vfio_pci_core_unregister_device(&vf->core);
	scoped_guard(mutex, &vf->function.gpu->lock)
		fake_clear_type(vf);
	vfio_put_device(&vf->core.vdev);
}

/* Show a function as what it plays; say whether it was something else. */
static bool fake_disguise(struct pci_dev *pdev, const struct fake_board *board)
{
	bool new = pdev->vendor != board->vendor ||
		   pdev->device != board->device ||
		   pdev->class != board->class;

	pdev->vendor = board->vendor;
	pdev->device = board->device;
	pdev->class = board->class;
	pdev->subsystem_vendor = board->subsystem_vendor;
	pdev->subsystem_device = pdev->is_virtfn ? 0 : board->subsystem_device;
	return new;
}

/*
 * Virtual functions that were enabled when the physical one was with another
 * driver have none: only its own driver can handle them.
 */
static void fake_adopt_vfs(struct pci_dev *pf, const struct fake_board *board)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev) {
		if (!pdev->is_virtfn || pci_physfn(pdev) != pf)
			continue;
		if (fake_disguise(pdev, board))
			kobject_uevent(&pdev->dev.kobj, KOBJ_CHANGE);
		if (device_attach(&pdev->dev) < 0)
			pci_err(pdev, "no driver takes it\n");
	}
}

static int fake_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	const struct fake_board *board = fake_find_board(pdev);
	struct fake_gpu *gpu;
	int ret;

	if (!board)
		return -ENODEV;
	if (pdev->is_virtfn &&
	    pci_physfn(pdev)->dev.driver != pdev->dev.driver)
		return -ENODEV;	/* see fake_adopt_vfs() */
	gpu = fake_get_gpu(pdev, board);
	if (!gpu)
		return -ENOMEM;
	/* Whoever looked at it before saw another device. */
	if (fake_disguise(pdev, board))
		kobject_uevent(&pdev->dev.kobj, KOBJ_CHANGE);
	if (pdev->is_virtfn)
		return board->scheme == FAKE_VFIO_ON_VF ?
			fake_probe_vf(pdev, gpu) : fake_probe_parent(pdev, gpu);
	ret = pci_enable_device(pdev);
	if (ret)
		return ret;
	ret = sysfs_create_group(&pdev->dev.kobj, &fake_knobs_group);
	if (ret)
		goto disable;
	if (fake_is_nvidia(board)) {
		ret = fake_show_to_nvml(pdev);
		if (ret)
			goto remove_knobs;
	}
	if (board->scheme == FAKE_MDEV_ON_PF) {
		ret = fake_probe_parent(pdev, gpu);
		if (ret)
			goto hide;
	} else {
		fake_adopt_vfs(pdev, board);
	}
	return 0;

hide:
	if (fake_is_nvidia(board))
		fake_hide_from_nvml(pdev);
remove_knobs:
	sysfs_remove_group(&pdev->dev.kobj, &fake_knobs_group);
disable:
	pci_disable_device(pdev);
	return ret;
}

static void fake_remove(struct pci_dev *pdev)
{
	const struct fake_board *board = fake_find_board(pdev);
	struct fake_gpu *gpu = fake_get_gpu(pdev, board);

	if (pdev->is_virtfn && board->scheme == FAKE_VFIO_ON_VF) {
		fake_remove_vf(pdev);
		return;
	}
	if (pdev->is_virtfn) {
		fake_remove_parent(pdev);
		return;
	}
	if (fake_is_nvidia(board))
		fake_hide_from_nvml(pdev);
	sysfs_remove_group(&pdev->dev.kobj, &fake_knobs_group);
	if (board->scheme == FAKE_MDEV_ON_PF)
		fake_remove_parent(pdev);
	else
		pci_disable_sriov(pdev);
	scoped_guard(mutex, &gpu->lock) {
		gpu->heterogeneous = board->heterogeneous;
		fake_mig_clear(&gpu->mig);
	}
	pci_disable_device(pdev);
}

static int fake_sriov_configure(struct pci_dev *pdev, int vfs)
{
	struct fake_gpu *gpu = fake_gpu_of(&pdev->dev);
	int ret;

	scoped_guard(mutex, &gpu->lock) {
		if (!vfs && gpu->total)
			return -EBUSY;
		fake_mig_clear(&gpu->mig);
	}
	if (vfs) {
		ret = pci_enable_sriov(pdev, vfs);
		return ret ? ret : vfs;
	}
	pci_disable_sriov(pdev);
	return 0;
}

/*
 * A function that comes while we are here is disguised before anybody hears of
 * it: a virtual function is never seen as anything but part of a GPU.
 */
static int fake_notify(struct notifier_block *block, unsigned long action,
		       void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);
	const struct fake_board *board;

	if (action != BUS_NOTIFY_ADD_DEVICE)
		return NOTIFY_DONE;
	board = fake_find_board(pdev);
	if (board)
		fake_disguise(pdev, board);
	return NOTIFY_OK;
}

static struct notifier_block fake_notifier = { .notifier_call = fake_notify };

/* Each as QEMU has it, and as we left it when we had it before. */
static const struct pci_device_id nvidia_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) },
	{ PCI_DEVICE(0x1b36, 0x0010) },
	{ PCI_DEVICE(0x8086, 0x5845) },
	{ PCI_DEVICE(0x10de, 0x1eb8) },
	{ PCI_DEVICE(0x10de, 0x2236) },
	{ PCI_DEVICE(0x10de, 0x20b5) },
	{ PCI_DEVICE(0x10de, 0x26b9) },
	{ }
};
MODULE_DEVICE_TABLE(pci, nvidia_ids);

static const struct pci_device_id i915_ids[] = {
	{ PCI_DEVICE(0x1b36, 0x0005) },
	{ PCI_DEVICE(0x8086, 0x191b) },
	{ }
};
MODULE_DEVICE_TABLE(pci, i915_ids);

/*
 * The names are part of the ids of mdev types. None of the devices does DMA
 * for us, and VFIO may have the IOMMU group of each.
 */
static struct pci_driver nvidia_driver = {
	.name = "nvidia",
	.id_table = nvidia_ids,
	.probe = fake_probe,
	.remove = fake_remove,
	.sriov_configure = fake_sriov_configure,
	.driver_managed_dma = true,
};

static struct pci_driver i915_driver = {
	.name = "i915",
	.id_table = i915_ids,
	.probe = fake_probe,
	.remove = fake_remove,
	.driver_managed_dma = true,
};

static int __init fake_init(void)
{
	int ret;

	ret = fake_show_host_to_nvml();
	if (ret)
		return ret;
	ret = bus_register_notifier(&pci_bus_type, &fake_notifier);
	if (ret)
		goto no_notifier;
	ret = mdev_register_driver(&nvidia_mdev_driver);
	if (ret)
		goto no_nvidia_mdev;
	ret = mdev_register_driver(&i915_mdev_driver);
	if (ret)
		goto no_i915_mdev;
	ret = pci_register_driver(&nvidia_driver);
	if (ret)
		goto no_nvidia;
	ret = pci_register_driver(&i915_driver);
	if (ret)
		goto no_i915;
	return 0;

no_i915:
	pci_unregister_driver(&nvidia_driver);
no_nvidia:
	mdev_unregister_driver(&i915_mdev_driver);
no_i915_mdev:
	mdev_unregister_driver(&nvidia_mdev_driver);
no_nvidia_mdev:
	bus_unregister_notifier(&pci_bus_type, &fake_notifier);
no_notifier:
	proc_remove(fake_proc);
	fake_forget_gpus();
	return ret;
}

static void __exit fake_exit(void)
{
	pci_unregister_driver(&i915_driver);
	pci_unregister_driver(&nvidia_driver);
	mdev_unregister_driver(&i915_mdev_driver);
	mdev_unregister_driver(&nvidia_mdev_driver);
	bus_unregister_notifier(&pci_bus_type, &fake_notifier);
	proc_remove(fake_proc);
	fake_forget_gpus();
}

module_init(fake_init);
module_exit(fake_exit);
MODULE_DESCRIPTION("GPUs with vGPUs for machines that have none");
MODULE_LICENSE("GPL");
