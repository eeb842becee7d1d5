package stats

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pod2 = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"

func reader(t testing.TB, files fs.FS, version Version) *Reader {
	r, err := New(Config{FS: files, Version: version})
	require.NoError(t, err)
	return r
}

func read(t testing.TB, files fs.FS, version Version, cgroup string) Usage {
	t.Helper()
	u, err := reader(t, files, version).Read(cgroup)
	require.NoError(t, err)
	return u
}

func details(t testing.TB, files fs.FS, version Version, cgroup string) Details {
	t.Helper()
	d, err := reader(t, files, version).Details(cgroup)
	require.NoError(t, err)
	return d
}

// TestRecorded reads trees recorded from kernel 6.18 with v1 and 6.1 with v2.
func TestRecorded(t *testing.T) {
	before := time.Now()
	u := read(t, os.DirFS("testdata/v2"), V2, pod2)
	require.False(t, u.Time.Before(before))
	u.Time = time.Time{}
	require.Equal(t, Usage{
		CPU: CPU{Total: new(38954 * time.Microsecond), Pressure: stalled(9589)},
		Memory: Memory{
			Usage: new(uint64(241664)), WorkingSet: new(uint64(241664 - 40960)), RSS: new(uint64(110592)),
			PageFaults: new(uint64(99)), MajorPageFaults: new(uint64(1)), Pressure: stalled(0),
		},
		Swap: Swap{Usage: new(uint64(0))}, Processes: new(uint64(1)), IO: stalled(5352),
	}, u)

	u = read(t, os.DirFS("testdata/v1"), V1, "/podrec/pod1")
	u.Time = time.Time{}
	require.Equal(t, Usage{
		CPU: CPU{Total: new(6346690 * time.Nanosecond)},
		Memory: Memory{
			Usage: new(uint64(5890048)), WorkingSet: new(uint64(5890048 - 5332992)), RSS: new(uint64(225280)), Limit: new(uint64(100 << 20)),
			PageFaults: new(uint64(481)), MajorPageFaults: new(uint64(1)),
		},
		Swap: Swap{Usage: new(uint64(0))}, Processes: new(uint64(2)),
	}, u)

	// The root cgroup of v2 has times and no amounts.
	u = read(t, os.DirFS("testdata/v2"), V2, "/")
	require.Equal(t, 40132*time.Millisecond, *u.CPU.Total)
	require.Nil(t, u.Memory.Usage)
	require.Nil(t, u.Memory.WorkingSet)
	require.NotNil(t, u.Memory.RSS)
	require.Empty(t, u.Unread)
}

func stalled(micros int64) *Pressure {
	s := Stall{Total: time.Duration(micros) * time.Microsecond}
	return &Pressure{Some: s, Full: s}
}

// Figures of malformed files are nil, and the files are reported; the remaining figures are
// present.
func TestUnknown(t *testing.T) {
	full := map[string]string{
		"cpu.stat": "usage_usec 10\n", "memory.current": "100\n", "memory.stat": "inactive_file 30\nanon 5\n", "memory.max": "1000\n", "pids.current": "3\n",
		"cpu.pressure": "some avg10=1.50 avg60=2.00 avg300=3.25 total=7\n",
	}
	for _, test := range []struct {
		name, file, text string
		unread           string
		want             func(*Usage)
	}{
		{"nothing wrong", "pids.current", "4", "", func(u *Usage) { u.Processes = new(uint64(4)) }},
		{"an no line starts with some", "memory.current", "", `memory.current: "" is not a number`, func(u *Usage) { u.Memory.Usage, u.Memory.WorkingSet = nil, nil }},
		{"a negative number", "pids.current", "-1", `pids.current: "-1" is not a number`, func(u *Usage) { u.Processes = nil }},
		{"a line is cut off", "memory.stat", "anon 5\ninactive_fi", `"inactive_fi" does not consist of a name and a number`, func(u *Usage) { u.Memory.WorkingSet = nil }},
		{"a value is not a number", "memory.stat", "anon x\ninactive_file 30", `memory.stat: anon: "x" is not a number`, func(u *Usage) { u.Memory.RSS = nil }},
		{"a limit that is not a number", "memory.max", "1000 or so", `memory.max: "1000 or so" is not a number`, func(u *Usage) { u.Memory.Limit = nil }},
		{"no limit", "memory.max", "max", "", func(u *Usage) { u.Memory.Limit = nil }},
		{"more time than there is", "cpu.stat", "usage_usec 18446744073709551615", "", func(u *Usage) { u.CPU.Total = nil }},
		{"the most time there is", "cpu.stat", "usage_usec 9223372036854775", "", func(u *Usage) { u.CPU.Total = new(9223372036854775 * time.Microsecond) }},
		{"two values", "memory.stat", "anon 5 6\ninactive_file 30", `memory.stat: anon: "5 6" is not a number`, func(u *Usage) { u.Memory.RSS = nil }},
		{"pressure without a total", "cpu.pressure", "some avg10=1.00 avg60=2.00 avg300=3.00", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"pressure in another order", "cpu.pressure", "some avg60=1.00 avg10=2.00 avg300=3.00 total=1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"pressure of another kind", "cpu.pressure", "most avg10=1.00 avg60=2.00 avg300=3.00 total=1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"pressure over a hundred", "cpu.pressure", "some avg10=100.01 avg60=2.00 avg300=3.00 total=1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"pressure that is not a number", "cpu.pressure", "some avg10=x avg60=2.00 avg300=3.00 total=1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"pressure without a name", "cpu.pressure", "some 1.00 avg60=2.00 avg300=3.00 total=1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"a total that is not a number", "cpu.pressure", "some avg10=1 avg60=2.00 avg300=3.00 total=x", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"a total without a name", "cpu.pressure", "some avg10=1 avg60=2.00 avg300=3.00 5", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"negative pressure", "cpu.pressure", "some avg10=-1 avg60=2.00 avg300=3.00 total=1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"a negative total", "cpu.pressure", "some avg10=1 avg60=2.00 avg300=3.00 total=-1", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"too large a total", "cpu.pressure", "some avg10=1 avg60=2.00 avg300=3.00 total=9223372036854775807", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"the largest total", "cpu.pressure", "some avg10=1 avg60=2 avg300=3 total=9223372036854775", "", func(u *Usage) {
			u.CPU.Pressure = &Pressure{Some: Stall{Total: 9223372036854775 * time.Microsecond, Avg10: 1, Avg60: 2, Avg300: 3}}
		}},
		{"pressure without the line some", "cpu.pressure", "full avg10=1 avg60=2.00 avg300=3.00 total=1", "no line starts with some", func(u *Usage) { u.CPU.Pressure = nil }},
		{"a full value that is not a number", "cpu.pressure", "some avg10=1 avg60=2 avg300=3 total=4\nfull avg10=x avg60=0 avg300=5 total=6", "is not a pressure line", func(u *Usage) { u.CPU.Pressure = nil }},
		{"all feel it", "cpu.pressure", "some avg10=1 avg60=2 avg300=3 total=4\nfull avg10=100 avg60=0 avg300=5 total=6", "", func(u *Usage) {
			u.CPU.Pressure = &Pressure{
				Some: Stall{Total: 4 * time.Microsecond, Avg10: 1, Avg60: 2, Avg300: 3}, Full: Stall{Total: 6 * time.Microsecond, Avg10: 100, Avg300: 5},
			}
		}},
	} {
		files := fstest.MapFS{}
		for name, text := range full {
			files["a/b/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		files["a/b/"+test.file] = &fstest.MapFile{Data: []byte(test.text)}
		want := Usage{
			CPU: CPU{
				Total: new(10 * time.Microsecond), Pressure: &Pressure{Some: Stall{Total: 7 * time.Microsecond, Avg10: 1.5, Avg60: 2, Avg300: 3.25}},
			},
			Memory:    Memory{Usage: new(uint64(100)), WorkingSet: new(uint64(70)), RSS: new(uint64(5)), Limit: new(uint64(1000))},
			Processes: new(uint64(3)),
		}
		test.want(&want)
		got := read(t, files, V2, "a/b/")
		if test.unread == "" {
			require.Empty(t, got.Unread, test.name)
		} else {
			require.Len(t, got.Unread, 1, test.name)
			require.ErrorContains(t, got.Unread[0], test.unread, test.name)
		}
		got.Time, got.Unread = time.Time{}, nil
		require.Equal(t, want, got, test.name)
	}
}

func TestErrors(t *testing.T) {
	_, err := New(Config{Version: V2})
	require.EqualError(t, err, "stats: Config.FS is required")
	_, err = New(Config{FS: fstest.MapFS{}, Version: 3})
	require.EqualError(t, err, "stats: Config.Version: 3 is neither 1 nor 2")
	for _, version := range []Version{V1, V2} {
		u, err := reader(t, fstest.MapFS{}, version).Read("/kubepods")
		require.Zero(t, u)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "cgroup /kubepods")
	}
	files := FailingFS{
		MapFS: fstest.MapFS{"a/pids.current": {Data: []byte("3")}, "a/memory.current": {}, "a/io.pressure": {}},
		Name:  "a/memory.current", Err: errors.New("input/output error"),
	}
	u := read(t, files, V2, "a")
	require.EqualValues(t, 3, *u.Processes)
	require.Len(t, u.Unread, 2)
	require.ErrorContains(t, u.Unread[0], "a/memory.current: input/output error")
	require.ErrorContains(t, u.Unread[1], "a/io.pressure: no line starts with some")

	for _, files.Err = range []error{fs.ErrNotExist, syscall.ENODEV} { // the cgroup is removed meanwhile
		u = read(t, files, V2, "a")
		require.Nil(t, u.Memory.Usage)
		require.Len(t, u.Unread, 1)
		require.ErrorContains(t, u.Unread[0], "a/io.pressure: no line starts with some")
	}
}

func TestSwapV1(t *testing.T) {
	files := func(limit, both string) fstest.MapFS {
		return fstest.MapFS{
			"memory/a/memory.usage_in_bytes": {Data: []byte("100")}, "memory/a/memory.limit_in_bytes": {Data: []byte("1000")},
			"memory/a/memory.memsw.usage_in_bytes": {Data: []byte(both)}, "memory/a/memory.memsw.limit_in_bytes": {Data: []byte(limit)},
		}
	}
	for _, test := range []struct {
		limit, both string
		want        Swap
	}{
		{"1500", "130", Swap{Usage: new(uint64(30)), Limit: new(uint64(500))}},
		{"1000", "90", Swap{Usage: new(uint64(0)), Limit: new(uint64(0))}},
		{"9223372036854771712", "100", Swap{Usage: new(uint64(0))}},
		{"9223372036853727232", "100", Swap{Usage: new(uint64(0))}}, // pages of 1 MiB
		{"9223372036853727231", "100", Swap{Usage: new(uint64(0)), Limit: new(uint64(9223372036853726231))}},
		{"9223372036854710272", "", Swap{}}, // pages of 64 KiB
	} {
		u := read(t, files(test.limit, test.both), V1, "a")
		require.Equal(t, test.want, u.Swap)
	}
	unlimited := files("1500", "130")
	unlimited["memory/a/memory.limit_in_bytes"].Data = []byte("9223372036854771712")
	u := read(t, unlimited, V1, "a")
	require.Equal(t, Swap{Usage: new(uint64(30))}, u.Swap)
	counted := files("1500", "130")
	counted["memory/a/memory.stat"] = &fstest.MapFile{Data: []byte("swap 3\ntotal_swap 20\n")}
	u = read(t, counted, V1, "a")
	require.Equal(t, Swap{Usage: new(uint64(20)), Limit: new(uint64(500))}, u.Swap, "the kernel counts it by itself")
}

func TestRate(t *testing.T) {
	at := func(when time.Duration, total *time.Duration) Usage {
		return Usage{Time: time.Unix(10, 0).Add(when), CPU: CPU{Total: total}}
	}
	second, three := new(time.Second), new(3*time.Second)
	for _, test := range []struct {
		name     string
		from, to Usage
		want     *uint64
	}{
		{"half a processor", at(0, second), at(4*time.Second, three), new(uint64(500_000_000))},
		{"idle", at(0, second), at(4*time.Second, second), new(uint64(0))},
		{"it ran backwards", at(0, three), at(4*time.Second, second), nil},
		{"no time has passed", at(0, second), at(0, three), nil},
		{"a nanosecond", at(0, second), at(1, new(time.Second+1)), new(uint64(1_000_000_000))},
		{"the first is not known", at(0, nil), at(4*time.Second, three), nil},
		{"the last is not known", at(0, second), at(4*time.Second, nil), nil},
	} {
		require.Equal(t, test.want, Rate(test.from, test.to), test.name)
	}
}

// Rates forgets dropped names.
func TestRemovedNamesAreDropped(t *testing.T) {
	at := func(seconds int64) Usage {
		return Usage{Time: time.Unix(seconds, 0), CPU: CPU{Total: new(time.Duration(seconds) * time.Second)}}
	}
	c := &Collector{names: map[string]string{"gone": "a", "there": "b"}}
	c.rate([]Pod{{Sandbox: "gone", Usage: at(1)}, {Sandbox: "there", Usage: at(1)}})
	c.rate([]Pod{{Sandbox: "there", Usage: at(2)}})
	require.Equal(t, map[string]string{"there": "b"}, c.names)
	pods := []Pod{{Sandbox: "gone", Usage: at(3)}, {Sandbox: "there", Usage: at(3)}}
	c.rate(pods)
	require.Nil(t, pods[0].NanoCores)
	require.EqualValues(t, 1_000_000_000, *pods[1].NanoCores)
}

func TestAvailable(t *testing.T) {
	n := func(n uint64) *uint64 { return &n }
	for _, test := range []struct{ limit, machine, used, want *uint64 }{
		{n(100), n(1000), n(30), n(70)},
		{n(5000), n(1000), n(30), n(970)},
		{nil, n(1000), n(30), n(970)},
		{n(100), nil, n(130), n(0)},
		{nil, nil, n(30), nil},
		{n(100), n(1000), nil, nil},
	} {
		require.Equal(t, test.want, Memory{Limit: test.limit, WorkingSet: test.used}.Available(test.machine))
	}
}

func TestReadMachine(t *testing.T) {
	m, err := ReadMachine(os.DirFS("testdata/proc"))
	require.NoError(t, err)
	require.EqualValues(t, 3043268<<10, *m.Memory)
	require.EqualValues(t, (3043268-2840648)<<10, *m.Used.Memory)
	require.EqualValues(t, 0, *m.Swap)
	require.EqualValues(t, 0, *m.Used.Swap)
	require.Equal(t, (1585+2561+47)*10*time.Millisecond, *m.Busy)
	require.Equal(t, 2, m.Processors)
	require.Equal(t, time.Unix(1795399146, 0), m.Boot)
	require.Empty(t, m.Unread)

	for _, none := range []fs.FS{nil, (*embed.FS)(nil)} {
		_, err = ReadMachine(none)
		require.EqualError(t, err, "stats: proc is required")
	}
	for text, unread := range map[string]string{
		"\ncpu 1 2 3 4 5 6 7\nbtime": "stat: cpu has 7 numbers, want 8 or more", "cpu": "stat: cpu has 0 numbers", "cpu 1 2 3 4 5 6 7 x": `"x" is not a number`, "btime soon": `stat: btime: "soon" is not a number`,
	} {
		m, err := ReadMachine(fstest.MapFS{"stat": {Data: []byte(text)}, "meminfo": {Data: []byte("MemTotal: 5 kB\nHugePages_Total: 3\nMemFree: x kB")}})
		require.NoError(t, err)
		require.Len(t, m.Unread, 2)
		require.ErrorContains(t, m.Unread[0], `meminfo: MemFree: "x" is not a number`)
		require.ErrorContains(t, m.Unread[1], unread)
		require.Nil(t, m.Busy)
		require.Nil(t, m.Used.Memory)
		require.EqualValues(t, 5<<10, *m.Memory)
		require.True(t, m.Boot.IsZero())
	}
	m, err = ReadMachine(fstest.MapFS{})
	require.NoError(t, err)
	require.Nil(t, m.Memory)
	m, err = ReadMachine(fstest.MapFS{"meminfo": {Data: []byte("MemTotal: 5 kB\nMemFree: 3")}})
	require.NoError(t, err)
	require.EqualValues(t, 5<<10, *m.Memory)
	require.Nil(t, m.Used.Memory, "a number without a unit is no amount of memory")
}

// FuzzRead: malformed files cause at most nil figures.
func FuzzRead(f *testing.F) {
	f.Add("usage_usec 5", "inactive_file 3", "7", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1")
	f.Fuzz(func(t *testing.T, cpu, memory, current, pressure string) {
		files := fstest.MapFS{}
		for name, text := range map[string]string{"cpu.stat": cpu, "memory.stat": memory, "memory.current": current, "io.pressure": pressure} {
			files["a/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		u := read(t, files, V2, "a")
		if u.CPU.Total != nil {
			require.GreaterOrEqual(t, *u.CPU.Total, time.Duration(0))
			require.Contains(t, cpu, "usage_usec")
		}
		if u.Memory.WorkingSet != nil {
			require.LessOrEqual(t, *u.Memory.WorkingSet, *u.Memory.Usage)
		}
		if u.IO != nil {
			require.True(t, strings.Contains(pressure, "some"))
			require.GreaterOrEqual(t, u.IO.Some.Total, time.Duration(0))
		}
	})
}

// FailingFS fails to read one file or link. It is exported for tests outside the package.
type FailingFS struct {
	fstest.MapFS
	Name string
	Err  error
}

func (f FailingFS) ReadFile(name string) ([]byte, error) {
	if name == f.Name {
		return nil, &fs.PathError{Op: "read", Path: name, Err: f.Err}
	}
	return f.MapFS.ReadFile(name)
}

func (f FailingFS) ReadLink(name string) (string, error) {
	if name == f.Name {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: f.Err}
	}
	return f.MapFS.ReadLink(name)
}
