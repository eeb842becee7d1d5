package stats

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

var detailsOfV1 = map[string]string{
	"cpuacct/a/cpuacct.usage": "3000000000\n", "cpuacct/a/cpuacct.stat": "user 200\nsystem 100\n",
	"cpu/a/cpu.stat": "nr_periods 50\nnr_throttled 20\nthrottled_time 1500000000\nnr_bursts 1\nburst_time 1000\n", "cpu/a/cpu.shares": "512\n", "cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n",
	"memory/a/memory.stat":           "pgfault 3\npgmajfault 1\ntotal_cache 11\ntotal_rss 12\ntotal_mapped_file 13\ntotal_active_file 14\ntotal_inactive_file 15\ntotal_pgfault 30\ntotal_pgmajfault 10\n",
	"memory/a/memory.usage_in_bytes": "100\n", "memory/a/memory.max_usage_in_bytes": "200\n", "memory/a/memory.limit_in_bytes": "1000\n", "memory/a/memory.memsw.limit_in_bytes": "9223372036854771712\n",
	"memory/a/memory.soft_limit_in_bytes": "9223372036854771712\n", "memory/a/memory.failcnt": "7\n", "memory/a/memory.kmem.usage_in_bytes": "8\n", "memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	"pids/a/pids.current": "4\n", "pids/a/pids.max": "50\n",
	"blkio/a/blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 0\n8:0 Total 12288\n8:16 Read 1\nTotal 12289\n",
	"blkio/a/blkio.throttle.io_serviced_recursive":      "8:0 Read 1\n8:0 Write 2\nTotal 3\n",
}

var detailsOfV2 = map[string]string{
	"a/cpu.stat": "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nnr_periods 50\nnr_throttled 20\nthrottled_usec 1500000\nnr_bursts 1\nburst_usec 1\n", "a/cpu.weight": "20\n", "a/cpu.max": "50000 100000\n",
	"a/memory.stat": "anon 12\nfile 11\nfile_mapped 13\nkernel 8\nactive_file 14\ninactive_file 15\npgfault 30\npgmajfault 10\n", "a/memory.current": "100\n", "a/memory.peak": "200\n", "a/memory.max": "1000\n",
	"a/memory.swap.max": "max\n", "a/memory.swap.current": "0\n", "a/memory.min": "0\n", "a/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n",
	"a/pids.current": "4\n", "a/pids.max": "50\n", "a/io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n8:32 \n8:16 rbytes=1 wbytes=0 rios=0 wios=0 dbytes=0 dios=0\n",
}

func TestDetails(t *testing.T) {
	u64 := func(n uint64) *uint64 { return &n }
	want := Details{
		User: new(2 * time.Second), System: new(time.Second),
		Throttling: Throttling{Periods: u64(50), Throttled: u64(20), Bursts: u64(1), ThrottledFor: new(1500 * time.Millisecond), BurstFor: new(time.Microsecond)},
		Limits:     Limits{Shares: u64(512), Quota: new(50 * time.Millisecond), Period: new(100 * time.Millisecond), Memory: u64(1000), Processes: u64(50)},
		Cache:      u64(11), Mapped: u64(13), Kernel: u64(8), MaxUsage: u64(200), ActiveFile: u64(14), InactiveFile: u64(15), Failures: u64(7), OOMKills: u64(2),
	}
	want.Memory = Memory{Usage: u64(100), WorkingSet: u64(85), RSS: u64(12), Limit: u64(1000), PageFaults: u64(30), MajorPageFaults: u64(10)}
	want.CPU.Total, want.Processes = new(3*time.Second), u64(4)
	want.Devices = []Device{{Major: 8, Minor: 0}, {Major: 8, Minor: 16}}
	want.Devices[0].Bytes.Read, want.Devices[0].Bytes.Written, want.Devices[1].Bytes.Read = 4096, 8192, 1
	want.Devices[0].Operations.Read, want.Devices[0].Operations.Written = 1, 2

	got := details(t, tree(detailsOfV1), V1, "/a")
	require.False(t, got.Time.IsZero())
	first := want
	first.Own.PageFaults, first.Own.MajorPageFaults, first.Time = u64(3), u64(1), got.Time
	require.Equal(t, first, got)

	got = details(t, tree(detailsOfV2), V2, "/a")
	second := want
	second.Own.PageFaults, second.Own.MajorPageFaults, second.Time = u64(30), u64(10), got.Time
	second.Limits.Shares, second.Limits.Reservation, second.Swap.Usage = u64(2+19*262142/9999), u64(0), u64(0)
	require.Equal(t, second, got)

	_, err := reader(t, tree(detailsOfV2), V2).Details("/b")
	require.ErrorIs(t, err, fs.ErrNotExist)
	recorded := details(t, os.DirFS("testdata/v1"), V1, "/podrec/pod1")
	require.Empty(t, recorded.Unread)
	require.Nil(t, recorded.Devices, "an unrecorded value is unknown")
	require.NotNil(t, recorded.Cache)
	recorded = details(t, os.DirFS("testdata/v2"), V2, pod2)
	require.Empty(t, recorded.Unread)
	require.NotNil(t, recorded.User)
	require.NotNil(t, recorded.ActiveFile)
}

// Without a memory limit there is no limit of memory and swap.
func TestSwapWithoutLimitOfMemory(t *testing.T) {
	files := tree(detailsOfV2)
	files["a/memory.max"], files["a/memory.swap.max"] = &fstest.MapFile{Data: []byte("max")}, &fstest.MapFile{Data: []byte("500")}
	d := details(t, files, V2, "a")
	require.Nil(t, d.Limits.Memory)
	require.Nil(t, d.Limits.MemoryAndSwap)
	require.EqualValues(t, 500, *d.Swap.Limit)
}

// Figures of malformed files are nil, and the files are reported.
func TestUnknownDetails(t *testing.T) {
	for _, test := range []struct {
		version     Version
		file, text  string
		unread      string
		isUnknown   func(Details) bool
		alsoWithout bool // also nil, but not reported, if the file is missing
	}{
		{V1, "blkio/a/blkio.throttle.io_service_bytes_recursive", "8:0 Read", "does not consist of a device and a number", func(d Details) bool { return d.Devices == nil }, true},
		{V1, "blkio/a/blkio.throttle.io_service_bytes_recursive", "8:0 Read x", "does not consist of a device and a number", func(d Details) bool { return d.Devices == nil }, true},
		{V1, "blkio/a/blkio.throttle.io_service_bytes_recursive", "Total 0", "", func(d Details) bool { return d.Devices != nil && len(d.Devices) == 0 }, false},
		{V1, "memory/a/memory.soft_limit_in_bytes", "500", "", func(d Details) bool { return *d.Limits.Reservation == 500 }, false},
		{V1, "blkio/a/blkio.throttle.io_serviced_recursive", "8 Read 5", "does not consist of a device and a number", func(d Details) bool { return d.Devices == nil }, true},
		{V1, "cpu/a/cpu.cfs_quota_us", "-1", "", func(d Details) bool { return d.Limits.Quota == nil }, true},
		{V1, "cpu/a/cpu.cfs_quota_us", "x", "is not a number", func(d Details) bool { return d.Limits.Quota == nil }, true},
		{V1, "cpuacct/a/cpuacct.stat", "user", "does not consist of a name and a number", func(d Details) bool { return d.User == nil && d.System == nil }, true},
		{V1, "memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0", "", func(d Details) bool { return d.OOMKills == nil }, true},
		{V2, "a/io.stat", "8:0 rbytes=x", "is not a number", func(d Details) bool { return d.Devices == nil }, true},
		{V2, "a/io.stat", "eight rbytes=1", `"eight" is not a device`, func(d Details) bool { return d.Devices == nil }, true},
		{V2, "a/io.stat", "0:0 rbytes=1", "", func(d Details) bool { return len(d.Devices) == 1 && d.Devices[0].Bytes.Read == 1 }, false},
		{V2, "a/io.stat", "", "", func(d Details) bool { return d.Devices != nil && len(d.Devices) == 0 }, false},
		{V2, "a/cpu.max", "max 100000", "", func(d Details) bool { return d.Limits.Quota == nil && *d.Limits.Period == 100*time.Millisecond }, false},
		{V2, "a/cpu.max", "50000", "does not consist of quota and period", func(d Details) bool { return d.Limits.Quota == nil && d.Limits.Period == nil }, true},
		{V2, "a/cpu.weight", "0", "", func(d Details) bool { return d.Limits.Shares == nil }, true},
		{V2, "a/cpu.weight", "1", "", func(d Details) bool { return *d.Limits.Shares == 2 }, false},
		{V2, "a/cpu.weight", "10000", "", func(d Details) bool { return *d.Limits.Shares == 262144 }, false},
		{V2, "a/io.stat", "8:x rbytes=1", "is not a device", func(d Details) bool { return d.Devices == nil }, true},
		{V2, "a/io.stat", "x:8 rbytes=1", "is not a device", func(d Details) bool { return d.Devices == nil }, true},
		{V2, "a/io.stat", "8:-1 rbytes=1", "is not a device", func(d Details) bool { return d.Devices == nil }, true},
		{V2, "a/io.stat", "-1:8 rbytes=1", "is not a device", func(d Details) bool { return d.Devices == nil }, true},
		{V1, "blkio/a/blkio.throttle.io_serviced_recursive", "8:0 Read 5\n\n8:0 Write 5", "does not consist of a device and a number", func(d Details) bool { return d.Devices == nil }, true},
		{V1, "blkio/a/blkio.throttle.io_serviced_recursive", "Total 5 5", "does not consist of a device and a number", func(d Details) bool { return d.Devices == nil }, true},
		{V2, "a/memory.swap.max", "500", "", func(d Details) bool { return *d.Limits.MemoryAndSwap == 1500 }, false},
		{V2, "a/memory.swap.max", "max", "", func(d Details) bool { return d.Limits.MemoryAndSwap == nil }, true},
		{V2, "a/cpu.weight", "10001", "", func(d Details) bool { return d.Limits.Shares == nil }, true},
		{V2, "a/memory.peak", "12x", "is not a number", func(d Details) bool { return d.MaxUsage == nil }, true},
	} {
		all := detailsOfV1
		if test.version == V2 {
			all = detailsOfV2
		}
		files := tree(all)
		files[test.file] = &fstest.MapFile{Data: []byte(test.text)}
		d := details(t, files, test.version, "a")
		require.True(t, test.isUnknown(d), "%s: %q: %+v", test.file, test.text, d)
		if test.unread == "" {
			require.Empty(t, d.Unread, test.file)
		} else {
			require.NotEmpty(t, d.Unread, test.file)
			require.ErrorContains(t, d.Unread[len(d.Unread)-1], test.unread)
		}
		require.NotNil(t, d.Memory.Usage, "the rest is known")
		if test.alsoWithout {
			delete(files, test.file)
			d = details(t, files, test.version, "a")
			require.True(t, test.isUnknown(d), test.file)
			require.Empty(t, d.Unread, test.file)
		}
	}
}

func TestProcessesAndChildren(t *testing.T) {
	files := tree(map[string]string{"memory/a/cgroup.procs": "12\n7\n1\n", "memory/a/x/cgroup.procs": "", "memory/a/y/z/cgroup.procs": "0\n"})
	r := reader(t, files, V1)
	ids, err := r.processes("/a")
	require.NoError(t, err)
	require.Equal(t, []int{12, 7, 1}, ids)
	ids, err = r.processes("/a/x")
	require.NoError(t, err)
	require.Empty(t, ids)
	_, err = r.processes("/a/y/z")
	require.ErrorContains(t, err, `"0" is not a process ID`)
	_, err = r.processes("/b")
	require.ErrorIs(t, err, fs.ErrNotExist)
	names, err := r.Children("/a")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"x", "y"}, names)
	_, err = r.Children("/b")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = r.Created("/b")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = r.Created("/a")
	require.NoError(t, err)
}
