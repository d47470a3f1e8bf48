/*
 *    Licensed under the Apache License, Version 2.0 (the "License"); you may
 *    not use this file except in compliance with the License. You may obtain
 *    a copy of the License at
 *
 *         http://www.apache.org/licenses/LICENSE-2.0
 *
 *    Unless required by applicable law or agreed to in writing, software
 *    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
 *    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
 *    License for the specific language governing permissions and limitations
 *    under the License.
 */

/*
 * fakenvml - NVML for machines without NVIDIA's driver
 *
 * Answers the calls of NVML that are about vGPUs and GPU instances from a
 * directory of text files, and follows the rules of the real library and of
 * the hardware below it. Every call reads the files again. The files of a GPU
 * may be those of a kernel module that simulates it: then the module decides
 * what is refused. README.rst has the files; structures and numbers are those
 * of NVML 13.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define NONE 0xFFFFFFFFu /* no GPU instance, no profile */
#define COLUMNS 10
#define MOST 256 /* GPUs, and lines of a file */
#define LENGTH 256

typedef enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
	GPU_IS_LOST = 15,
	IN_USE = 19,
	INSUFFICIENT_RESOURCES = 23,
	VERSION_MISMATCH = 25,
	UNKNOWN = 999,
} nvmlReturn;

/* ------------------------------------------------------------------------
 * The files
 */

/* The first words of a line, and the rest of it as the last one. */
struct line {
	char text[LENGTH];
	char *word[COLUMNS];
};

struct table {
	int count;
	struct line lines[MOST];
};

static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;
static int references;

static const char *directory(void)
{
	const char *found = getenv("FAKENVML");

	return found ? found : "/run/fakenvml";
}

/* The path of a file of the host (gpu is NULL) or of a GPU. */
static void path_of(char *path, const char *gpu, const char *name)
{
	if (gpu)
		snprintf(path, 2 * LENGTH, "%s/gpus/%s/%s", directory(), gpu, name);
	else
		snprintf(path, 2 * LENGTH, "%s/%s", directory(), name);
}

static bool split(struct line *line, int columns)
{
	char *at = line->text + strspn(line->text, " \t");
	int i;

	line->text[strcspn(line->text, "\n")] = '\0';
	if (!*at || *at == '#')
		return false;
	for (i = 0; i < COLUMNS; i++)
		line->word[i] = "-";
	for (i = 0; i < columns && *at; i++) {
		line->word[i] = at;
		if (i == columns - 1)
			break;
		at += strcspn(at, " \t");
		if (*at)
			*at++ = '\0';
		at += strspn(at, " \t");
	}
	return true;
}

/* Read a file of lines; false if there is none. */
static bool read_table(struct table *table, const char *gpu, const char *name,
		       int columns)
{
	char path[2 * LENGTH];
	FILE *file;

	table->count = 0;
	path_of(path, gpu, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (table->count < MOST &&
	       fgets(table->lines[table->count].text, LENGTH, file))
		if (split(&table->lines[table->count], columns))
			table->count++;
	fclose(file);
	return true;
}

/* Write a file of lines; readers see the old one or the new one. */
static nvmlReturn write_table(const struct table *table, const char *gpu,
			      const char *name, int columns)
{
	char path[2 * LENGTH], fresh[2 * LENGTH + 4];
	FILE *file;
	int i, j;

	path_of(path, gpu, name);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = fopen(fresh, "we");
	if (!file)
		return UNKNOWN;
	for (i = 0; i < table->count; i++)
		for (j = 0; j < columns; j++)
			fprintf(file, "%s%c", table->lines[i].word[j],
				j < columns - 1 ? ' ' : '\n');
	return fclose(file) || rename(fresh, path) ? UNKNOWN : SUCCESS;
}

/* Whether the files of a GPU are those of a kernel module. */
static bool is_of_kernel(const char *gpu)
{
	char path[2 * LENGTH];

	path_of(path, gpu, "creatable");
	return !access(path, F_OK);
}

/* Write to a file of the kernel's, which may refuse it. */
static nvmlReturn tell(const char *gpu, const char *name, const char *text)
{
	nvmlReturn result = SUCCESS;
	char path[2 * LENGTH];
	int descriptor;

	path_of(path, gpu, name);
	descriptor = open(path, O_WRONLY | O_CLOEXEC);
	if (descriptor < 0)
		return errno == ENOENT ? GPU_IS_LOST : NO_PERMISSION;
	if (write(descriptor, text, strlen(text)) < 0)
		switch (errno) {
		case EBUSY:
			result = IN_USE;
			break;
		case ENOSPC:
		case EEXIST:
			result = INSUFFICIENT_RESOURCES;
			break;
		case EOPNOTSUPP:
			result = NOT_SUPPORTED;
			break;
		default:
			result = INVALID_ARGUMENT;
		}
	close(descriptor);
	return result;
}

static unsigned int number(const char *word)
{
	return strcmp(word, "-") ? (unsigned int)strtoul(word, NULL, 0) : NONE;
}

static bool is(const char *word, unsigned int wanted)
{
	return strcmp(word, "-") && number(word) == wanted;
}

/* The line whose first word is this number. */
static struct line *find(struct table *table, unsigned int wanted)
{
	int i;

	for (i = 0; i < table->count; i++)
		if (is(table->lines[i].word[0], wanted))
			return &table->lines[i];
	return NULL;
}

/* The first line of a file of a GPU; false if there is none. */
static bool read_words(struct line *line, const char *gpu, const char *name,
		       int columns)
{
	struct table table;

	if (!read_table(&table, gpu, name, columns) || !table.count)
		return false;
	memcpy(line->text, table.lines[0].text, LENGTH);
	for (int i = 0; i < COLUMNS; i++) {
		char *word = table.lines[0].word[i];
		bool inside = word >= table.lines[0].text &&
			      word < table.lines[0].text + LENGTH;

		line->word[i] =
			inside ? line->text + (word - table.lines[0].text) : "-";
	}
	return true;
}

/* Whether a call may go on; "fail" may say otherwise. */
static nvmlReturn enter(const char *function)
{
	struct table table;
	int i;

again:
	read_table(&table, NULL, "fail", 2);
	for (i = 0; i < table.count; i++) {
		if (strcmp(table.lines[i].word[0], function))
			continue;
		if (strcmp(table.lines[i].word[1], "hang"))
			return number(table.lines[i].word[1]);
		usleep(10000);
		goto again;
	}
	return SUCCESS;
}

#define ENTER()                                                               \
	do {                                                                  \
		nvmlReturn failed = enter(__func__);                          \
		if (failed)                                                   \
			return failed;                                        \
		if (!references)                                              \
			return UNINITIALIZED;                                 \
	} while (0)

/* ------------------------------------------------------------------------
 * Handles, which stay valid
 */

struct device {
	char name[32]; /* of its directory */
};

struct instance {
	struct device *device;
	unsigned int id;
	bool is_compute;
};

static struct device devices[MOST];
static struct instance instances[8 * MOST];

static struct device *device_of(const char *name)
{
	struct device *found = NULL;
	int i;

	pthread_mutex_lock(&handles);
	for (i = 0; i < MOST && !found; i++)
		if (!*devices[i].name || !strcmp(devices[i].name, name)) {
			found = &devices[i];
			snprintf(found->name, sizeof(found->name), "%s", name);
		}
	pthread_mutex_unlock(&handles);
	return found;
}

static struct instance *instance_of(struct device *device, unsigned int id,
				    bool is_compute)
{
	struct instance *found = NULL;
	int i;

	pthread_mutex_lock(&handles);
	for (i = 0; i < 8 * MOST && !found; i++)
		if (!instances[i].device ||
		    (instances[i].device == device && instances[i].id == id &&
		     instances[i].is_compute == is_compute)) {
			found = &instances[i];
			*found = (struct instance){device, id, is_compute};
		}
	pthread_mutex_unlock(&handles);
	return found;
}

/* The names of the GPUs in order; how many there are. */
static int list_gpus(char names[MOST][32])
{
	char path[2 * LENGTH];
	struct dirent **found;
	int i, all, count = 0;

	path_of(path, NULL, "gpus");
	all = scandir(path, &found, NULL, alphasort);
	for (i = 0; i < all; i++) {
		if (found[i]->d_name[0] != '.' && count < MOST)
			snprintf(names[count++], 32, "%.31s", found[i]->d_name);
		free(found[i]);
	}
	if (all >= 0)
		free(found);
	return count;
}

static nvmlReturn check(const struct device *device)
{
	char path[2 * LENGTH];

	if (device < devices || device >= devices + MOST || !*device->name)
		return INVALID_ARGUMENT;
	path_of(path, device->name, "");
	return access(path, F_OK) ? GPU_IS_LOST : SUCCESS;
}

#define DEVICE(device)                                                        \
	do {                                                                  \
		nvmlReturn lost = check(device);                              \
		if (lost)                                                     \
			return lost;                                          \
	} while (0)

static bool parse(const char *text, unsigned int at[4])
{
	return sscanf(text, "%x:%x:%x.%x", &at[0], &at[1], &at[2], &at[3]) == 4;
}

/* Changes of several processes come one after the other. */
static int lock(void)
{
	int descriptor = open(directory(), O_RDONLY | O_CLOEXEC);

	if (descriptor >= 0)
		flock(descriptor, LOCK_EX);
	return descriptor;
}

static nvmlReturn unlock(int descriptor, nvmlReturn result)
{
	if (descriptor >= 0)
		close(descriptor);
	return result;
}

static nvmlReturn put(char *buffer, unsigned int size, const char *text)
{
	if (!buffer)
		return INVALID_ARGUMENT;
	if (strlen(text) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(buffer, text);
	return SUCCESS;
}

/* Give a list as NVML does: without enough room, only its length. */
static nvmlReturn put_list(const unsigned int *items, unsigned int length,
			   unsigned int *count, unsigned int *buffer)
{
	unsigned int room = *count;

	*count = length;
	if (!length)
		return SUCCESS;
	if (!buffer || room < length)
		return INSUFFICIENT_SIZE;
	memcpy(buffer, items, length * sizeof(*items));
	return SUCCESS;
}

/* ------------------------------------------------------------------------
 * The host and its GPUs
 */

API nvmlReturn nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn failed = enter(__func__);
	struct table version;

	(void)flags;
	if (failed)
		return failed;
	if (!read_table(&version, NULL, "driver_version", 1))
		return DRIVER_NOT_LOADED;
	references++;
	return SUCCESS;
}

API nvmlReturn nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

API nvmlReturn nvmlShutdown(void)
{
	ENTER();
	references--;
	return SUCCESS;
}

API const char *nvmlErrorString(nvmlReturn code)
{
	static char text[32];

	switch (code) {
	case SUCCESS:
		return "The operation was successful";
	case UNINITIALIZED:
		return "Uninitialized";
	case INVALID_ARGUMENT:
		return "Invalid Argument";
	case NOT_SUPPORTED:
		return "Not Supported";
	case NO_PERMISSION:
		return "Insufficient Permissions";
	case NOT_FOUND:
		return "Not Found";
	case INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case GPU_IS_LOST:
		return "GPU is lost";
	case IN_USE:
		return "In use by another client";
	case INSUFFICIENT_RESOURCES:
		return "Insufficient Resources";
	case VERSION_MISMATCH:
		return "Argument version mismatch";
	default:
		snprintf(text, sizeof(text), "Error %u", code);
		return text;
	}
}

API nvmlReturn nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	struct table table;

	ENTER();
	if (!read_table(&table, NULL, "driver_version", 1) || !table.count)
		return UNKNOWN;
	return put(version, length, table.lines[0].word[0]);
}

API nvmlReturn nvmlDeviceGetCount_v2(unsigned int *count)
{
	char names[MOST][32];

	ENTER();
	*count = list_gpus(names);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned int index,
					     struct device **device)
{
	char names[MOST][32];

	ENTER();
	if (index >= (unsigned int)list_gpus(names))
		return INVALID_ARGUMENT;
	*device = device_of(names[index]);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id,
						struct device **device)
{
	unsigned int wanted[4], at[4];
	char names[MOST][32];
	int i, count;

	ENTER();
	if (!bus_id || !parse(bus_id, wanted))
		return INVALID_ARGUMENT;
	count = list_gpus(names);
	for (i = 0; i < count; i++)
		if (parse(names[i], at) && !memcmp(at, wanted, sizeof(at))) {
			*device = device_of(names[i]);
			return SUCCESS;
		}
	return NOT_FOUND;
}

struct pci_info {
	char legacy[16];
	unsigned int domain, bus, device, ids, subsystem;
	char bus_id[32];
};

static void put_pci(struct pci_info *pci, const char *name)
{
	unsigned int at[4] = {0};

	parse(name, at);
	memset(pci, 0, sizeof(*pci));
	pci->domain = at[0];
	pci->bus = at[1];
	pci->device = at[2];
	snprintf(pci->legacy, sizeof(pci->legacy), "%04X:%02X:%02X.%X",
		 at[0] & 0xFFFF, at[1] & 0xFF, at[2] & 0x1F, at[3] & 7);
	snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.%X", at[0],
		 at[1] & 0xFF, at[2] & 0x1F, at[3] & 7);
}

API nvmlReturn nvmlDeviceGetPciInfo_v3(struct device *device,
				       struct pci_info *pci)
{
	ENTER();
	DEVICE(device);
	put_pci(pci, device->name);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetName(struct device *device, char *name,
				 unsigned int length)
{
	struct line line;

	ENTER();
	DEVICE(device);
	if (!read_words(&line, device->name, "name", 1))
		return UNKNOWN;
	return put(name, length, line.word[0]);
}

/* Two words of a file: what is, and what will be after a reset. */
static nvmlReturn put_mode(struct device *device, const char *name,
			   unsigned int *current, unsigned int *pending)
{
	struct line line;

	DEVICE(device);
	if (!read_words(&line, device->name, name, 2))
		return NOT_SUPPORTED;
	*current = number(line.word[0]);
	*pending = number(line.word[1]);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetEccMode(struct device *device,
				    unsigned int *current,
				    unsigned int *pending)
{
	ENTER();
	return put_mode(device, "ecc", current, pending);
}

struct process {
	unsigned int pid;
	unsigned long long memory;
	unsigned int gpu_instance, compute_instance;
};

static nvmlReturn put_processes(struct device *device, const char *kind,
				unsigned int *count, struct process *processes)
{
	unsigned int room = *count;
	struct table table;
	int i;

	DEVICE(device);
	read_table(&table, device->name, "processes", 3);
	*count = 0;
	for (i = 0; i < table.count; i++) {
		if (strcmp(table.lines[i].word[1], kind))
			continue;
		if (*count < room && processes)
			processes[*count] = (struct process){
				number(table.lines[i].word[0]), 0,
				number(table.lines[i].word[2]), NONE};
		++*count;
	}
	return *count && (!processes || room < *count) ? INSUFFICIENT_SIZE :
							 SUCCESS;
}

API nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(
	struct device *device, unsigned int *count, struct process *processes)
{
	ENTER();
	return put_processes(device, "compute", count, processes);
}

API nvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(
	struct device *device, unsigned int *count, struct process *processes)
{
	ENTER();
	return put_processes(device, "graphics", count, processes);
}

static nvmlReturn find_link(struct device *device, unsigned int link,
			    struct table *table, struct line **found)
{
	DEVICE(device);
	read_table(table, device->name, "nvlinks", 4);
	*found = find(table, link);
	return *found ? SUCCESS : NOT_SUPPORTED;
}

API nvmlReturn nvmlDeviceGetNvLinkState(struct device *device,
					unsigned int link, unsigned int *active)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;

	ENTER();
	failed = find_link(device, link, &table, &found);
	if (!failed)
		*active = number(found->word[1]);
	return failed;
}

API nvmlReturn nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device,
						   unsigned int link,
						   struct pci_info *pci)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;

	ENTER();
	failed = find_link(device, link, &table, &found);
	if (!failed && !strcmp(found->word[2], "-"))
		return NOT_SUPPORTED;
	if (!failed)
		put_pci(pci, found->word[2]);
	return failed;
}

API nvmlReturn nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device,
						   unsigned int link,
						   unsigned int *type)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;

	ENTER();
	failed = find_link(device, link, &table, &found);
	if (!failed && !strcmp(found->word[3], "-"))
		return NOT_SUPPORTED;
	if (!failed)
		*type = number(found->word[3]);
	return failed;
}

/* ------------------------------------------------------------------------
 * MIG mode and GPU instances
 *
 * profiles:  number, id, compute slices, memory slices, most, MiB,
 *            places where it may begin (0,2,4), name
 * instances: id, profile id, start, size, compute instances (0 or 1)
 */

enum { PROFILE = 8, INSTANCE = 5 };

static bool is_mig_on(const char *gpu)
{
	struct line line;

	return read_words(&line, gpu, "mig", 2) && number(line.word[0]) == 1;
}

static struct line *find_profile(struct table *profiles, const char *gpu,
				 int column, unsigned int wanted)
{
	int i;

	read_table(profiles, gpu, "profiles", PROFILE);
	for (i = 0; i < profiles->count; i++)
		if (is(profiles->lines[i].word[column], wanted))
			return &profiles->lines[i];
	return NULL;
}

static bool has_vgpus(const char *gpu, unsigned int instance);

API nvmlReturn nvmlDeviceGetMigMode(struct device *device,
				    unsigned int *current,
				    unsigned int *pending)
{
	ENTER();
	return put_mode(device, "mig", current, pending);
}

/* A reset: it takes the GPU instances along. */
API nvmlReturn nvmlDeviceSetMigMode(struct device *device, unsigned int mode,
				    nvmlReturn *activation)
{
	struct table table = {1, {{"", {mode ? "1" : "0", mode ? "1" : "0"}}}};
	struct line line;
	nvmlReturn failed;
	int held;

	ENTER();
	DEVICE(device);
	if (mode > 1)
		return INVALID_ARGUMENT;
	if (!read_words(&line, device->name, "mig", 2))
		return NOT_SUPPORTED;
	*activation = SUCCESS;
	if (number(line.word[0]) == mode)
		return SUCCESS;
	if (is_of_kernel(device->name))
		return tell(device->name, "mig", mode ? "1" : "0");
	if (read_words(&line, device->name, "vfs", 1) && number(line.word[0]))
		return IN_USE;
	if (has_vgpus(device->name, NONE))
		return IN_USE;
	held = lock();
	failed = write_table(&table, device->name, "mig", 2);
	table.count = 0;
	if (!failed)
		failed = write_table(&table, device->name, "instances", INSTANCE);
	return unlock(held, failed);
}

struct profile_info {
	unsigned int id, p2p, slices, most, processors, copy, decoders, encoders;
	unsigned int jpeg, ofa;
	unsigned long long mib;
};

struct profile_info_v2 {
	unsigned int version;
	unsigned int id, p2p, slices, most, processors, copy, decoders, encoders;
	unsigned int jpeg, ofa;
	unsigned long long mib;
	char name[96];
};

static nvmlReturn put_profile(struct device *device, int column,
			      unsigned int wanted, struct profile_info_v2 *info)
{
	struct table table;
	struct line *found;

	DEVICE(device);
	if (info->version != (sizeof(*info) | 2 << 24))
		return VERSION_MISMATCH;
	found = find_profile(&table, device->name, column, wanted);
	if (!found)
		return NOT_SUPPORTED;
	info->id = number(found->word[1]);
	info->slices = number(found->word[2]);
	info->most = number(found->word[4]);
	info->mib = number(found->word[5]);
	return put(info->name, sizeof(info->name), found->word[7]);
}

API nvmlReturn nvmlDeviceGetGpuInstanceProfileInfoV(
	struct device *device, unsigned int profile,
	struct profile_info_v2 *info)
{
	ENTER();
	return put_profile(device, 0, profile, info);
}

API nvmlReturn nvmlDeviceGetGpuInstanceProfileInfoByIdV(
	struct device *device, unsigned int id, struct profile_info_v2 *info)
{
	ENTER();
	return put_profile(device, 1, id, info);
}

API nvmlReturn nvmlDeviceGetGpuInstanceProfileInfo(struct device *device,
						   unsigned int profile,
						   struct profile_info *info)
{
	struct profile_info_v2 full = {.version = sizeof(full) | 2 << 24};
	nvmlReturn failed;

	ENTER();
	failed = put_profile(device, 0, profile, &full);
	if (!failed)
		*info = (struct profile_info){
			.id = full.id, .slices = full.slices,
			.most = full.most, .mib = full.mib};
	return failed;
}

/* Whether an instance fits at a place, beside those that exist. */
static bool fits(struct table *existing, struct line *profile,
		 unsigned int start)
{
	unsigned int end = start + number(profile->word[3]), alike = 0;
	int i;

	for (i = 0; i < existing->count; i++) {
		struct line *other = &existing->lines[i];
		unsigned int its = number(other->word[2]);

		if (its < end && start < its + number(other->word[3]))
			return false;
		alike += is(other->word[1], number(profile->word[1]));
	}
	return alike < number(profile->word[4]);
}

struct placement {
	unsigned int start, size;
};

/* The places of a profile; only those that are free, if asked for. */
static unsigned int list_places(struct table *existing, struct line *profile,
				bool only_free, struct placement *places)
{
	unsigned int count = 0, start;
	char *at = profile->word[6];

	for (;;) {
		start = strtoul(at, &at, 10);
		if (!only_free || fits(existing, profile, start))
			places[count++] = (struct placement){
				start, number(profile->word[3])};
		if (*at++ != ',' || count == MOST)
			return count;
	}
}

static nvmlReturn find_places(struct device *device, unsigned int id,
			      bool only_free, struct placement *places,
			      unsigned int *count)
{
	struct table profiles, existing;
	struct line *profile;

	DEVICE(device);
	if (!is_mig_on(device->name))
		return NOT_SUPPORTED;
	profile = find_profile(&profiles, device->name, 1, id);
	if (!profile)
		return NOT_SUPPORTED;
	read_table(&existing, device->name, "instances", INSTANCE);
	*count = list_places(&existing, profile, only_free, places);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
	struct device *device, unsigned int id, struct placement *places,
	unsigned int *count)
{
	struct placement found[MOST];
	unsigned int room = *count;
	nvmlReturn failed;

	ENTER();
	failed = find_places(device, id, false, found, count);
	if (failed || !places)
		return failed;
	if (room < *count)
		return INSUFFICIENT_SIZE;
	memcpy(places, found, *count * sizeof(*found));
	return SUCCESS;
}

/* Create instances one after the other, as long as they fit. */
API nvmlReturn nvmlDeviceGetGpuInstanceRemainingCapacity(
	struct device *device, unsigned int id, unsigned int *count)
{
	struct table profiles, existing;
	struct placement found[MOST];
	char start[MOST][12], size[12];
	unsigned int left;
	struct line *profile;
	nvmlReturn failed;

	ENTER();
	failed = find_places(device, id, true, found, &left);
	if (failed)
		return failed;
	profile = find_profile(&profiles, device->name, 1, id);
	read_table(&existing, device->name, "instances", INSTANCE);
	snprintf(size, sizeof(size), "%s", profile->word[3]);
	for (*count = 0; existing.count < MOST; ++*count) {
		left = list_places(&existing, profile, true, found);
		if (!left)
			break;
		snprintf(start[*count], 12, "%u", found[0].start);
		existing.lines[existing.count++] = (struct line){
			"", {"0", profile->word[1], start[*count], size, "0"}};
	}
	return SUCCESS;
}

/* The kernel numbers an instance; it is known by its place. */
static nvmlReturn create_in_kernel(const char *gpu, unsigned int id,
				   unsigned int start, unsigned int *instance)
{
	struct table existing;
	char command[32];
	nvmlReturn failed;
	int i;

	snprintf(command, sizeof(command), "cgi %u %u", id, start);
	failed = tell(gpu, "instances", command);
	if (failed)
		return failed;
	read_table(&existing, gpu, "instances", INSTANCE);
	for (i = 0; i < existing.count; i++)
		if (is(existing.lines[i].word[2], start)) {
			*instance = number(existing.lines[i].word[0]);
			return SUCCESS;
		}
	return UNKNOWN;
}

/* A command about an instance, to the kernel. */
static nvmlReturn tell_about(struct instance *instance, const char *command)
{
	char text[32];

	snprintf(text, sizeof(text), "%s %u", command, instance->id);
	return tell(instance->device->name, "instances", text);
}

static nvmlReturn create(struct device *device, unsigned int id,
			 const struct placement *wanted, unsigned int *instance)
{
	char name[12], start[12], size[12], profile[12];
	struct placement found[MOST];
	struct table existing;
	unsigned int left, i;
	nvmlReturn failed;

	failed = find_places(device, id, true, found, &left);
	if (failed)
		return failed;
	for (i = 0; i < left && wanted && found[i].start != wanted->start; i++)
		;
	if (i >= left)
		return INSUFFICIENT_RESOURCES;
	if (is_of_kernel(device->name))
		return create_in_kernel(device->name, id, found[i].start, instance);
	read_table(&existing, device->name, "instances", INSTANCE);
	for (*instance = 1; find(&existing, *instance); ++*instance)
		;
	snprintf(name, sizeof(name), "%u", *instance);
	snprintf(profile, sizeof(profile), "%u", id);
	snprintf(start, sizeof(start), "%u", found[i].start);
	snprintf(size, sizeof(size), "%u", found[i].size);
	existing.lines[existing.count++] =
		(struct line){"", {name, profile, start, size, "0"}};
	return write_table(&existing, device->name, "instances", INSTANCE);
}

API nvmlReturn nvmlDeviceCreateGpuInstanceWithPlacement(
	struct device *device, unsigned int id, const struct placement *place,
	struct instance **instance)
{
	unsigned int made;
	nvmlReturn failed;
	int held;

	ENTER();
	held = lock();
	failed = unlock(held, create(device, id, place, &made));
	if (!failed)
		*instance = instance_of(device, made, false);
	return failed;
}

API nvmlReturn nvmlDeviceCreateGpuInstance(struct device *device,
					   unsigned int id,
					   struct instance **instance)
{
	ENTER();
	return nvmlDeviceCreateGpuInstanceWithPlacement(device, id, NULL,
							instance);
}

/* The line of an instance, in a table that it is read into. */
static nvmlReturn find_instance(struct instance *instance, struct table *table,
				struct line **found)
{
	if (instance < instances || instance >= instances + 8 * MOST ||
	    !instance->device)
		return INVALID_ARGUMENT;
	DEVICE(instance->device);
	read_table(table, instance->device->name, "instances", INSTANCE);
	*found = find(table, instance->id);
	return *found ? SUCCESS : INVALID_ARGUMENT;
}

API nvmlReturn nvmlGpuInstanceDestroy(struct instance *instance)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;
	int held;

	ENTER();
	held = lock();
	failed = find_instance(instance, &table, &found);
	if (!failed && is_of_kernel(instance->device->name))
		return unlock(held, tell_about(instance, "dgi"));
	if (!failed && (number(found->word[4]) ||
			has_vgpus(instance->device->name, instance->id)))
		failed = IN_USE;
	if (failed)
		return unlock(held, failed);
	/* The words point into the lines, so no line is moved. */
	for (int i = found - table.lines; i < table.count - 1; i++)
		memcpy(table.lines[i].word, table.lines[i + 1].word,
		       sizeof(table.lines[i].word));
	table.count--;
	return unlock(held, write_table(&table, instance->device->name,
					"instances", INSTANCE));
}

API nvmlReturn nvmlDeviceGetGpuInstances(struct device *device, unsigned int id,
					 struct instance **found,
					 unsigned int *count)
{
	struct table table;
	int i;

	ENTER();
	DEVICE(device);
	if (!is_mig_on(device->name) ||
	    !find_profile(&table, device->name, 1, id))
		return NOT_SUPPORTED;
	read_table(&table, device->name, "instances", INSTANCE);
	*count = 0;
	for (i = 0; i < table.count; i++)
		if (is(table.lines[i].word[1], id))
			found[(*count)++] = instance_of(
				device, number(table.lines[i].word[0]), false);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetGpuInstanceById(struct device *device,
					    unsigned int id,
					    struct instance **instance)
{
	struct table table;

	ENTER();
	DEVICE(device);
	if (!is_mig_on(device->name))
		return NOT_SUPPORTED;
	read_table(&table, device->name, "instances", INSTANCE);
	if (!find(&table, id))
		return NOT_FOUND;
	*instance = instance_of(device, id, false);
	return SUCCESS;
}

struct instance_info {
	struct device *device;
	unsigned int id, profile;
	struct placement placement;
};

API nvmlReturn nvmlGpuInstanceGetInfo(struct instance *instance,
				      struct instance_info *info)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;

	ENTER();
	failed = find_instance(instance, &table, &found);
	if (!failed)
		*info = (struct instance_info){
			instance->device, instance->id, number(found->word[1]),
			{number(found->word[2]), number(found->word[3])}};
	return failed;
}

/* -- compute instances: one for all of a GPU instance --------------------- */

static nvmlReturn set_compute(struct instance *instance, bool wanted)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;
	int held = lock();

	failed = find_instance(instance, &table, &found);
	if (!failed && !!number(found->word[4]) == wanted)
		failed = wanted ? INSUFFICIENT_RESOURCES : INVALID_ARGUMENT;
	if (!failed && is_of_kernel(instance->device->name))
		return unlock(held, tell_about(instance, wanted ? "cci" : "dci"));
	if (!failed && !wanted &&
	    has_vgpus(instance->device->name, instance->id))
		failed = IN_USE;
	if (failed)
		return unlock(held, failed);
	found->word[4] = wanted ? "1" : "0";
	return unlock(held, write_table(&table, instance->device->name,
					"instances", INSTANCE));
}

API nvmlReturn nvmlGpuInstanceCreateComputeInstance(struct instance *instance,
						    unsigned int profile,
						    struct instance **made)
{
	nvmlReturn failed;

	ENTER();
	(void)profile;
	failed = set_compute(instance, true);
	if (!failed)
		*made = instance_of(instance->device, instance->id, true);
	return failed;
}

API nvmlReturn nvmlGpuInstanceGetComputeInstances(struct instance *instance,
						  unsigned int profile,
						  struct instance **made,
						  unsigned int *count)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;

	ENTER();
	(void)profile;
	failed = find_instance(instance, &table, &found);
	if (failed)
		return failed;
	*count = number(found->word[4]);
	if (*count)
		*made = instance_of(instance->device, instance->id, true);
	return SUCCESS;
}

API nvmlReturn nvmlComputeInstanceDestroy(struct instance *instance)
{
	ENTER();
	return instance->is_compute ? set_compute(instance, false) :
				      INVALID_ARGUMENT;
}

/* ------------------------------------------------------------------------
 * vGPU types
 *
 * types of the host: id, profile id, frame buffer in MiB, most per GPU
 *                    instance, most per virtual machine, class, name
 * types of a GPU:    id, most on the GPU, slots and places in heterogeneous
 *                    mode, slots and places in homogeneous mode
 * vgpus of a GPU:    vGPU, type id, UUID of the VM, UUID of the mdev, place,
 *                    GPU instance, state of the licence, driver of the guest,
 *                    its own UUID, ECC
 */

enum { TYPE = 7, TYPE_OF_GPU = 6, VGPU = 10 };

static struct line *find_type(struct table *types, unsigned int id)
{
	read_table(types, NULL, "types", TYPE);
	return find(types, id);
}

static unsigned int memory_of(unsigned int id)
{
	struct table types;
	struct line *found = find_type(&types, id);

	return found ? number(found->word[2]) : 0;
}

/* Whether a GPU, or one of its instances, has vGPUs. */
static bool has_vgpus(const char *gpu, unsigned int instance)
{
	struct table vgpus;
	int i;

	read_table(&vgpus, gpu, "vgpus", VGPU);
	for (i = 0; i < vgpus.count; i++)
		if (instance == NONE || is(vgpus.lines[i].word[5], instance))
			return true;
	return false;
}

static bool is_mixed(const char *gpu)
{
	struct line line;

	return read_words(&line, gpu, "heterogeneous", 1) &&
	       number(line.word[0]) == 1;
}

/* How many more vGPUs of a type an instance takes: they have one size. */
static unsigned int room_of(const char *gpu, unsigned int instance,
			    unsigned int type)
{
	struct table types, vgpus;
	struct line *found = find_type(&types, type);
	unsigned int room;
	int i;

	if (!found)
		return 0;
	room = number(found->word[3]);
	read_table(&vgpus, gpu, "vgpus", VGPU);
	for (i = 0; i < vgpus.count; i++) {
		unsigned int its = number(vgpus.lines[i].word[1]);

		if (!is(vgpus.lines[i].word[5], instance))
			continue;
		if (memory_of(its) != number(found->word[2]) || !room)
			return 0;
		room--;
	}
	return room;
}

static unsigned int list_numbers(char *text, unsigned int *numbers)
{
	unsigned int count = 0;

	if (!strcmp(text, "-"))
		return 0;
	do
		numbers[count++] = strtoul(text, &text, 10);
	while (*text++ == ',' && count < MOST);
	return count;
}

/* The slots of a type, and where it may begin, in a mode of the GPU. */
static unsigned int list_slots(const char *gpu, unsigned int type, bool mixed,
			       unsigned int *size, unsigned int *places)
{
	struct table types;
	struct line *found;

	read_table(&types, gpu, "types", TYPE_OF_GPU);
	found = find(&types, type);
	if (!found)
		return 0;
	*size = number(found->word[mixed ? 2 : 4]);
	return list_numbers(found->word[mixed ? 3 : 5], places);
}

/* Drop the places that vGPUs of the GPU have. */
static unsigned int drop_taken(const char *gpu, bool mixed, unsigned int size,
			       unsigned int *places, unsigned int count)
{
	unsigned int unused[MOST], left = 0, i;
	struct table vgpus;
	int j;

	read_table(&vgpus, gpu, "vgpus", VGPU);
	for (i = 0; i < count; i++) {
		bool free = true;

		for (j = 0; j < vgpus.count; j++) {
			unsigned int its = 0;
			unsigned int at = number(vgpus.lines[j].word[4]);

			list_slots(gpu, number(vgpus.lines[j].word[1]), mixed,
				   &its, unused);
			if (at != NONE && at < places[i] + size &&
			    places[i] < at + its)
				free = false;
		}
		if (free)
			places[left++] = places[i];
	}
	return left;
}

/* Whether one more vGPU of a type fits on a GPU that shares its time. */
static bool fits_in_time(const char *gpu, unsigned int type)
{
	unsigned int places[MOST], size = 0, count;
	bool mixed = is_mixed(gpu);
	struct table types, vgpus;
	struct line *found;
	int i;

	read_table(&types, gpu, "types", TYPE_OF_GPU);
	found = find(&types, type);
	read_table(&vgpus, gpu, "vgpus", VGPU);
	for (i = 0; i < vgpus.count && !mixed; i++)
		if (memory_of(number(vgpus.lines[i].word[1])) != memory_of(type))
			return false;
	if (!found || (!mixed && vgpus.count >= (int)number(found->word[1])))
		return false;
	if (!mixed)
		return true;
	count = list_slots(gpu, type, true, &size, places);
	return drop_taken(gpu, true, size, places, count) > 0;
}

static bool is_creatable(const char *gpu, unsigned int type)
{
	struct table types, existing;
	struct line *found = find_type(&types, type);
	int i;

	if (is_of_kernel(gpu)) {
		read_table(&existing, gpu, "creatable", 1);
		return find(&existing, type);
	}
	if (!found || (number(found->word[1]) != NONE) != is_mig_on(gpu))
		return false;
	if (number(found->word[1]) == NONE)
		return fits_in_time(gpu, type);
	read_table(&existing, gpu, "instances", INSTANCE);
	for (i = 0; i < existing.count; i++)
		if (is(existing.lines[i].word[1], number(found->word[1])) &&
		    room_of(gpu, number(existing.lines[i].word[0]), type))
			return true;
	return false;
}

static nvmlReturn put_types(struct device *device, bool only_creatable,
			    unsigned int *count, unsigned int *ids)
{
	unsigned int found[MOST], length = 0;
	struct table types;
	int i;

	DEVICE(device);
	if (!read_table(&types, device->name, "types", TYPE_OF_GPU))
		return NOT_SUPPORTED;
	for (i = 0; i < types.count; i++) {
		unsigned int id = number(types.lines[i].word[0]);

		if (!only_creatable || is_creatable(device->name, id))
			found[length++] = id;
	}
	return put_list(found, length, count, ids);
}

API nvmlReturn nvmlDeviceGetSupportedVgpus(struct device *device,
					   unsigned int *count,
					   unsigned int *ids)
{
	ENTER();
	return put_types(device, false, count, ids);
}

API nvmlReturn nvmlDeviceGetCreatableVgpus(struct device *device,
					   unsigned int *count,
					   unsigned int *ids)
{
	ENTER();
	return put_types(device, true, count, ids);
}

/* One word about a type, as a number. */
static nvmlReturn put_fact(unsigned int type, int column, unsigned int *fact)
{
	struct table types;
	struct line *found = find_type(&types, type);

	if (!found)
		return INVALID_ARGUMENT;
	*fact = number(found->word[column]);
	return SUCCESS;
}

API nvmlReturn nvmlVgpuTypeGetGpuInstanceProfileId(unsigned int type,
						   unsigned int *profile)
{
	ENTER();
	return put_fact(type, 1, profile);
}

API nvmlReturn nvmlVgpuTypeGetFramebufferSize(unsigned int type,
					      unsigned long long *size)
{
	unsigned int mib;
	nvmlReturn failed;

	ENTER();
	failed = put_fact(type, 2, &mib);
	if (!failed)
		*size = (unsigned long long)mib << 20;
	return failed;
}

struct max_instance {
	unsigned int version, type, most;
};

API nvmlReturn nvmlVgpuTypeGetMaxInstancesPerGpuInstance(
	struct max_instance *info)
{
	nvmlReturn failed;

	ENTER();
	if (info->version != (sizeof(*info) | 1 << 24))
		return VERSION_MISMATCH;
	failed = put_fact(info->type, 3, &info->most);
	return !failed && info->most == NONE ? NOT_SUPPORTED : failed;
}

API nvmlReturn nvmlVgpuTypeGetMaxInstancesPerVm(unsigned int type,
						unsigned int *most)
{
	ENTER();
	return put_fact(type, 4, most);
}

static nvmlReturn put_text(unsigned int type, int column, char *text,
			   unsigned int *size)
{
	struct table types;
	struct line *found = find_type(&types, type);

	return found ? put(text, *size, found->word[column]) : INVALID_ARGUMENT;
}

API nvmlReturn nvmlVgpuTypeGetClass(unsigned int type, char *text,
				    unsigned int *size)
{
	ENTER();
	return put_text(type, 5, text, size);
}

API nvmlReturn nvmlVgpuTypeGetName(unsigned int type, char *text,
				   unsigned int *size)
{
	ENTER();
	return put_text(type, 6, text, size);
}

API nvmlReturn nvmlVgpuTypeGetMaxInstances(struct device *device,
					   unsigned int type,
					   unsigned int *most)
{
	struct table types;
	struct line *found;

	ENTER();
	DEVICE(device);
	if (!read_table(&types, device->name, "types", TYPE_OF_GPU))
		return NOT_SUPPORTED;
	found = find(&types, type);
	if (!found)
		return INVALID_ARGUMENT;
	*most = number(found->word[1]);
	return SUCCESS;
}

/* -- heterogeneous mode and placements ------------------------------------ */

struct mode {
	unsigned int version, mode;
};

API nvmlReturn nvmlDeviceGetVgpuHeterogeneousMode(struct device *device,
						  struct mode *mode)
{
	struct line line;

	ENTER();
	DEVICE(device);
	if (is_mig_on(device->name) ||
	    !read_words(&line, device->name, "heterogeneous", 1))
		return NOT_SUPPORTED;
	if (mode->version != (sizeof(*mode) | 1 << 24))
		return VERSION_MISMATCH;
	mode->mode = number(line.word[0]);
	return SUCCESS;
}

API nvmlReturn nvmlDeviceSetVgpuHeterogeneousMode(struct device *device,
						  const struct mode *mode)
{
	struct table table = {1, {{"", {mode->mode ? "1" : "0"}}}};
	struct line line;
	int held;

	ENTER();
	DEVICE(device);
	if (is_mig_on(device->name) ||
	    !read_words(&line, device->name, "heterogeneous", 1))
		return NOT_SUPPORTED;
	if (mode->version != (sizeof(*mode) | 1 << 24))
		return VERSION_MISMATCH;
	if (mode->mode > 1)
		return INVALID_ARGUMENT;
	if (is_of_kernel(device->name))
		return tell(device->name, "heterogeneous", mode->mode ? "1" : "0");
	if (has_vgpus(device->name, NONE))
		return IN_USE;
	held = lock();
	return unlock(held, write_table(&table, device->name, "heterogeneous", 1));
}

struct places {
	unsigned int version, size, count, *ids, mode;
};

enum { HETEROGENEOUS = 0 }; /* of the mode of a list of places */

static nvmlReturn put_places(struct device *device, unsigned int type,
			     struct places *list, bool only_creatable)
{
	/* The first version ends before the mode, and has no count. */
	bool first = list->version == (offsetof(struct places, mode) | 1 << 24);
	unsigned int ids[MOST], count, most, size = 0;
	bool mixed = is_mixed(device->name);
	struct table types;
	struct line *found;

	if (!first && list->version != (sizeof(*list) | 2 << 24))
		return VERSION_MISMATCH;
	read_table(&types, device->name, "types", TYPE_OF_GPU);
	found = find(&types, type);
	if (!found)
		return INVALID_ARGUMENT;
	if (is_mig_on(device->name) || (first && only_creatable && !mixed))
		return NOT_SUPPORTED;
	if (!only_creatable)
		mixed = first || list->mode == HETEROGENEOUS;
	most = first ? number(found->word[1]) : list->count;
	count = list_slots(device->name, type, mixed, &size, ids);
	if (!count)
		return NOT_SUPPORTED;
	if (only_creatable)
		count = is_creatable(device->name, type) ?
				drop_taken(device->name, mixed, size, ids, count) :
				0;
	list->size = size;
	list->count = count;
	if (count > most)
		return INSUFFICIENT_SIZE;
	memcpy(list->ids, ids, count * sizeof(*ids));
	return SUCCESS;
}

API nvmlReturn nvmlDeviceGetVgpuTypeSupportedPlacements(
	struct device *device, unsigned int type, struct places *list)
{
	ENTER();
	DEVICE(device);
	return put_places(device, type, list, false);
}

API nvmlReturn nvmlDeviceGetVgpuTypeCreatablePlacements(
	struct device *device, unsigned int type, struct places *list)
{
	ENTER();
	DEVICE(device);
	return put_places(device, type, list, true);
}

struct scheduler {
	unsigned int policy, arr, parameters[2];
};

API nvmlReturn nvmlDeviceGetVgpuSchedulerState(struct device *device,
					       struct scheduler *state)
{
	struct line line;

	ENTER();
	DEVICE(device);
	if (is_mig_on(device->name) ||
	    !read_words(&line, device->name, "scheduler", 1))
		return NOT_SUPPORTED;
	*state = (struct scheduler){number(line.word[0]), 0, {0, 0}};
	return SUCCESS;
}

/* ------------------------------------------------------------------------
 * vGPUs of running guests
 */

static nvmlReturn put_vgpus(const char *gpu, unsigned int instance,
			    unsigned int *count, unsigned int *ids)
{
	unsigned int found[MOST], length = 0;
	struct table vgpus;
	int i;

	read_table(&vgpus, gpu, "vgpus", VGPU);
	for (i = 0; i < vgpus.count; i++)
		if (strcmp(vgpus.lines[i].word[2], "-") &&
		    (instance == NONE || is(vgpus.lines[i].word[5], instance)))
			found[length++] = number(vgpus.lines[i].word[0]);
	return put_list(found, length, count, ids);
}

API nvmlReturn nvmlDeviceGetActiveVgpus(struct device *device,
					unsigned int *count, unsigned int *ids)
{
	ENTER();
	DEVICE(device);
	return put_vgpus(device->name, NONE, count, ids);
}

struct id_list {
	unsigned int version, count, *ids;
};

API nvmlReturn nvmlGpuInstanceGetActiveVgpus(struct instance *instance,
					     struct id_list *list)
{
	struct table table;
	struct line *found;
	nvmlReturn failed;

	ENTER();
	if (list->version != (sizeof(*list) | 1 << 24))
		return VERSION_MISMATCH;
	failed = find_instance(instance, &table, &found);
	return failed ? failed : put_vgpus(instance->device->name, instance->id,
					   &list->count, list->ids);
}

API nvmlReturn nvmlGpuInstanceGetCreatableVgpus(struct instance *instance,
						struct id_list *list)
{
	unsigned int ids[MOST], length = 0, profile, id;
	struct table table, types;
	struct line *found;
	nvmlReturn failed;
	int i;

	ENTER();
	if (list->version != (sizeof(*list) | 1 << 24))
		return VERSION_MISMATCH;
	failed = find_instance(instance, &table, &found);
	if (failed)
		return failed;
	read_table(&types, instance->device->name, "types", TYPE_OF_GPU);
	for (i = 0; i < types.count; i++) {
		id = number(types.lines[i].word[0]);
		if (!put_fact(id, 1, &profile) && is(found->word[1], profile) &&
		    room_of(instance->device->name, instance->id, id))
			ids[length++] = id;
	}
	return put_list(ids, length, &list->count, list->ids);
}

/* The line of a vGPU and the GPU that it is on. */
static nvmlReturn find_vgpu(unsigned int vgpu, char gpu[32],
			    struct table *vgpus, struct line **found)
{
	char names[MOST][32];
	int i, count = list_gpus(names);

	for (i = 0; i < count; i++) {
		read_table(vgpus, names[i], "vgpus", VGPU);
		*found = find(vgpus, vgpu);
		if (*found) {
			memcpy(gpu, names[i], 32);
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

#define VGPU_OR_RETURN(vgpu)                                                  \
	struct table vgpus;                                                   \
	struct line *found;                                                   \
	char gpu[32];                                                         \
	nvmlReturn missing;                                                   \
	ENTER();                                                              \
	missing = find_vgpu(vgpu, gpu, &vgpus, &found);                       \
	if (missing)                                                          \
		return missing

/* A word of a vGPU, if it has one. */
static nvmlReturn put_known(char *buffer, unsigned int size, const char *word)
{
	return strcmp(word, "-") ? put(buffer, size, word) : NOT_SUPPORTED;
}

/* The UUID among the arguments of a process of QEMU; "-" if there is none. */
static void find_machine(const char *pid, char uuid[64])
{
	char path[64], *argument = NULL;
	bool is_next = false;
	size_t room = 0;
	FILE *file;

	strcpy(uuid, "-");
	snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (getdelim(&argument, &room, '\0', file) > 0) {
		if (is_next)
			snprintf(uuid, 64, "%s", argument);
		is_next = !strcmp(argument, "-uuid");
	}
	free(argument);
	fclose(file);
}

API nvmlReturn nvmlVgpuInstanceGetVmID(unsigned int vgpu, char *id,
				       unsigned int size, unsigned int *kind)
{
	char uuid[64];
	VGPU_OR_RETURN(vgpu);
	*kind = 1; /* a UUID */
	if (strncmp(found->word[2], "pid:", 4))
		return put_known(id, size, found->word[2]);
	find_machine(found->word[2] + 4, uuid);
	return put_known(id, size, uuid);
}

API nvmlReturn nvmlVgpuInstanceGetMdevUUID(unsigned int vgpu, char *uuid,
					   unsigned int size)
{
	VGPU_OR_RETURN(vgpu);
	return put_known(uuid, size, found->word[3]);
}

API nvmlReturn nvmlVgpuInstanceGetUUID(unsigned int vgpu, char *uuid,
				       unsigned int size)
{
	VGPU_OR_RETURN(vgpu);
	return put_known(uuid, size, found->word[8]);
}

API nvmlReturn nvmlVgpuInstanceGetVmDriverVersion(unsigned int vgpu,
						  char *version,
						  unsigned int size)
{
	VGPU_OR_RETURN(vgpu);
	return put(version, size,
		   strcmp(found->word[7], "-") ? found->word[7] :
						 "Not Available");
}

API nvmlReturn nvmlVgpuInstanceGetType(unsigned int vgpu, unsigned int *type)
{
	VGPU_OR_RETURN(vgpu);
	*type = number(found->word[1]);
	return SUCCESS;
}

API nvmlReturn nvmlVgpuInstanceGetPlacementId(unsigned int vgpu,
					      struct mode *place)
{
	VGPU_OR_RETURN(vgpu);
	if (place->version != (sizeof(*place) | 1 << 24))
		return VERSION_MISMATCH;
	if (!strcmp(found->word[4], "-"))
		return NOT_SUPPORTED;
	place->mode = number(found->word[4]);
	return SUCCESS;
}

API nvmlReturn nvmlVgpuInstanceGetGpuInstanceId(unsigned int vgpu,
						unsigned int *instance)
{
	VGPU_OR_RETURN(vgpu);
	*instance = number(found->word[5]);
	return SUCCESS;
}

API nvmlReturn nvmlVgpuInstanceGetGpuPciId(unsigned int vgpu, char *id,
					   unsigned int *size)
{
	struct pci_info pci;
	VGPU_OR_RETURN(vgpu);
	put_pci(&pci, gpu);
	return put(id, *size, pci.bus_id);
}

API nvmlReturn nvmlVgpuInstanceGetEccMode(unsigned int vgpu,
					  unsigned int *mode)
{
	VGPU_OR_RETURN(vgpu);
	if (!strcmp(found->word[9], "-"))
		return NOT_SUPPORTED;
	*mode = number(found->word[9]);
	return SUCCESS;
}

struct licence {
	uint8_t is_licensed;
	struct {
		uint32_t year;
		uint16_t month, day, hour, min, sec;
		uint8_t status;
	} expiry;
	unsigned int state;
};

enum { LICENSED = 5, NO_EXPIRY = 3 };

API nvmlReturn nvmlVgpuInstanceGetLicenseInfo_v2(unsigned int vgpu,
						 struct licence *info)
{
	VGPU_OR_RETURN(vgpu);
	if (!strcmp(found->word[6], "-"))
		return NOT_SUPPORTED;
	memset(info, 0, sizeof(*info));
	info->state = number(found->word[6]);
	info->is_licensed = info->state == LICENSED;
	info->expiry.status = NO_EXPIRY;
	return SUCCESS;
}

API nvmlReturn nvmlVgpuInstanceGetLicenseStatus(unsigned int vgpu,
						unsigned int *is_licensed)
{
	VGPU_OR_RETURN(vgpu);
	if (!strcmp(found->word[6], "-"))
		return NOT_SUPPORTED;
	*is_licensed = number(found->word[6]) == LICENSED;
	return SUCCESS;
}
