/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GPU instances: parts of a GPU in MIG mode, one vGPU on each
 *
 * Instances of all profiles draw on one pool of memory slices. None overlap,
 * and each begins where its profile allows. A vGPU needs an instance of the
 * profile of its type that has a compute instance.
 */
#ifndef FAKEVGPU_MIG_H
#define FAKEVGPU_MIG_H

#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/sysfs.h>

struct fake_profile {
	unsigned int number;	/* NVML_GPU_INSTANCE_PROFILE_* */
	unsigned int id;	/* by which programs ask for it */
	unsigned int slices;
	unsigned int memory_slices;
	unsigned int max;	/* on one GPU */
	unsigned int mib;
	unsigned long starts;	/* the memory slices where it may begin, as bits */
	const char *name;
};

#define FAKE_MAX_INSTANCES	8	/* memory slices of a GPU */

struct fake_instance {
	const struct fake_profile *profile;	/* NULL: there is none */
	unsigned int start;
	bool has_compute;
	bool has_vgpu;
};

/* The id of an instance is its place in the array, counted from 1. */
struct fake_mig {
	bool on;
	struct fake_instance instances[FAKE_MAX_INSTANCES];
};

/* MIG user guide, "Supported MIG Profiles", and "nvidia-smi mig -lgip". */
static const struct fake_profile a100_profiles[] = {
	{ 0, 19, 1, 1, 7,  9728, 0x7f, "MIG 1g.10gb" },
	{ 7, 20, 1, 1, 1,  9728, 0x7f, "MIG 1g.10gb+me" },
	{ 9, 15, 1, 2, 4, 19968, 0x55, "MIG 1g.20gb" },
	{ 1, 14, 2, 2, 3, 19968, 0x15, "MIG 2g.20gb" },
	{ 2,  9, 3, 4, 2, 40192, 0x11, "MIG 3g.40gb" },
	{ 3,  5, 4, 4, 1, 40192, 0x01, "MIG 4g.40gb" },
	{ 4,  0, 7, 8, 1, 80896, 0x01, "MIG 7g.80gb" },
};

#define A100_1G		(&a100_profiles[0])
#define A100_1G_MEDIA	(&a100_profiles[1])
#define A100_1G_20GB	(&a100_profiles[2])
#define A100_2G		(&a100_profiles[3])
#define A100_3G		(&a100_profiles[4])
#define A100_4G		(&a100_profiles[5])
#define A100_7G		(&a100_profiles[6])

static void fake_mig_clear(struct fake_mig *mig)
{
	memset(mig->instances, 0, sizeof(mig->instances));
}

static unsigned long fake_mig_slices(const struct fake_profile *profile,
				     unsigned int start)
{
	return GENMASK(start + profile->memory_slices - 1, start);
}

/* Whether an instance fits at a memory slice, beside those that exist. */
static bool fake_mig_fits(const struct fake_mig *mig,
			  const struct fake_profile *profile,
			  unsigned int start)
{
	unsigned int i, alike = 0;

	if (start >= BITS_PER_LONG || !(profile->starts & BIT(start)))
		return false;
	for (i = 0; i < FAKE_MAX_INSTANCES; i++) {
		const struct fake_instance *other = &mig->instances[i];

		if (!other->profile)
			continue;
		if (fake_mig_slices(other->profile, other->start) &
		    fake_mig_slices(profile, start))
			return false;
		alike += other->profile == profile;
	}
	return alike < profile->max;
}

/* Create an instance, at a memory slice or at the first one that is free. */
static int fake_mig_create(struct fake_mig *mig,
			   const struct fake_profile *profile, int start)
{
	unsigned int i;

	if (start < 0)
		for (start = 0; start < FAKE_MAX_INSTANCES; start++)
			if (fake_mig_fits(mig, profile, start))
				break;
	if (!fake_mig_fits(mig, profile, start))
		return -ENOSPC;
	for (i = 0; mig->instances[i].profile; i++)
		;		/* no more of them fit than there are elements */
	mig->instances[i] = (struct fake_instance){
		.profile = profile, .start = start,
	};
	return 0;
}

static int fake_mig_destroy(struct fake_instance *instance)
{
	if (instance->has_compute || instance->has_vgpu)
		return -EBUSY;
	instance->profile = NULL;
	return 0;
}

static int fake_mig_set_compute(struct fake_instance *instance, bool wanted)
{
	if (instance->has_compute == wanted)
		return wanted ? -EEXIST : -ENOENT;
	if (instance->has_vgpu)
		return -EBUSY;
	instance->has_compute = wanted;
	return 0;
}

/* An instance that takes a vGPU of a type with this profile, or NULL. */
static struct fake_instance *fake_mig_find(struct fake_mig *mig,
					   const struct fake_profile *profile)
{
	unsigned int i;

	for (i = 0; i < FAKE_MAX_INSTANCES; i++) {
		struct fake_instance *instance = &mig->instances[i];

		if (instance->profile == profile && instance->has_compute &&
		    !instance->has_vgpu)
			return instance;
	}
	return NULL;
}

/*
 * A command, named after the option of nvidia-smi:
 *
 *   cgi PROFILE [START]	create a GPU instance
 *   dgi INSTANCE		destroy it
 *   cci INSTANCE		create its compute instance
 *   dci INSTANCE		destroy that
 */
static int fake_mig_run(struct fake_mig *mig,
			const struct fake_profile *profiles,
			unsigned int nprofiles, const char *text)
{
	struct fake_instance *instance;
	unsigned int number, i;
	char command[4];
	int start = -1;

	if (sscanf(text, "%3s %u %d", command, &number, &start) < 2)
		return -EINVAL;
	if (!mig->on)
		return -EOPNOTSUPP;
	if (!strcmp(command, "cgi")) {
		for (i = 0; i < nprofiles; i++)
			if (profiles[i].id == number)
				return fake_mig_create(mig, &profiles[i], start);
		return -EINVAL;
	}
	if (!number || number > FAKE_MAX_INSTANCES)
		return -ENOENT;
	instance = &mig->instances[number - 1];
	if (!instance->profile)
		return -ENOENT;
	if (!strcmp(command, "dgi"))
		return fake_mig_destroy(instance);
	if (!strcmp(command, "cci") || !strcmp(command, "dci"))
		return fake_mig_set_compute(instance, command[0] == 'c');
	return -EINVAL;
}

static unsigned int fake_mig_id(const struct fake_mig *mig,
				const struct fake_instance *instance)
{
	return instance - mig->instances + 1;
}

static int fake_mig_show_instances(const struct fake_mig *mig, char *buf)
{
	unsigned int i;
	int len = 0;

	for (i = 0; i < FAKE_MAX_INSTANCES; i++) {
		const struct fake_instance *instance = &mig->instances[i];

		if (instance->profile)
			len += sysfs_emit_at(buf, len, "%u %u %u %u %u\n",
					     fake_mig_id(mig, instance),
					     instance->profile->id,
					     instance->start,
					     instance->profile->memory_slices,
					     instance->has_compute);
	}
	return len;
}

static int fake_mig_show_profiles(const struct fake_profile *profiles,
				  unsigned int nprofiles, char *buf)
{
	unsigned int i, start;
	int len = 0;

	for (i = 0; i < nprofiles; i++) {
		const struct fake_profile *profile = &profiles[i];
		const char *before = " ";

		len += sysfs_emit_at(buf, len, "%u %u %u %u %u %u",
				     profile->number, profile->id,
				     profile->slices, profile->memory_slices,
				     profile->max, profile->mib);
		for_each_set_bit(start, &profile->starts, FAKE_MAX_INSTANCES) {
			len += sysfs_emit_at(buf, len, "%s%u", before, start);
			before = ",";
		}
		len += sysfs_emit_at(buf, len, " %s\n", profile->name);
	}
	return len;
}

#endif
