package stats

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

const netDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1000      10    1    2    0     0          0         0     2000      20    3    4    0     0       0          0
veth12:       5       5    0    0    0     0          0         0        5       5    0    0    0     0       0          0
`

func TestNetwork(t *testing.T) {
	n, err := ReadNetwork(tree(map[string]string{"self/net/dev": netDev}), "self")
	require.NoError(t, err)
	u64 := func(n uint64) *uint64 { return &n }
	want := Interface{Name: "eth0", Default: true, Received: Traffic{u64(1000), u64(10), u64(1), u64(2)}, Sent: Traffic{u64(2000), u64(20), u64(3), u64(4)}}
	require.Equal(t, []Interface{want}, n.Interfaces, "without loopback and the ends of pods' links")
	require.Equal(t, &want, n.Find())
	require.Nil(t, (&Network{}).Find())
	require.Nil(t, (*Network)(nil).Find())

	n, err = ReadNetwork(tree(map[string]string{"self/net/dev": "eth0: 1 2 3 4 5 6 7 8 9 10 11 12"}), "self")
	require.NoError(t, err)
	require.EqualValues(t, 12, *n.Interfaces[0].Sent.Dropped)
	for _, text := range []string{"eth0: 1 2 3", "eth0: 1 2 3 4 5 6 7 8 9 10 11", "eth0: 1 2 3 4 5 6 7 8 9 10 11 x 0 0 0 0"} {
		_, err = ReadNetwork(tree(map[string]string{"7/net/dev": text}), "7")
		require.ErrorContains(t, err, "7/net/dev: eth0")
	}
	_, err = ReadNetwork(fstest.MapFS{}, "7")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestProcesses(t *testing.T) {
	most, running, err := ReadProcesses(tree(map[string]string{"sys/kernel/pid_max": "32768\n", "sys/kernel/threads-max": "1000\n", "loadavg": "0.1 0.2 0.3 2/345 6789\n"}))
	require.NoError(t, err)
	require.EqualValues(t, 1000, *most)
	require.EqualValues(t, 345, *running)
	most, running, err = ReadProcesses(tree(map[string]string{"sys/kernel/pid_max": "32768\n", "loadavg": "0.1 0.2"}))
	require.ErrorContains(t, err, "loadavg")
	require.EqualValues(t, 32768, *most)
	require.Nil(t, running)
	most, _, err = ReadProcesses(tree(map[string]string{"sys/kernel/pid_max": "1000\n", "sys/kernel/threads-max": "32768\n"}))
	require.NoError(t, err)
	require.EqualValues(t, 1000, *most)
	most, _, err = ReadProcesses(tree(map[string]string{"sys/kernel/threads-max": "5"}))
	require.NoError(t, err)
	require.EqualValues(t, 5, *most)
	most, running, err = ReadProcesses(fstest.MapFS{})
	require.NoError(t, err)
	require.Nil(t, most)
	require.Nil(t, running)
}

func TestOwnCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/kubelet.service\n": "/system.slice/kubelet.service",
		"0::/\n":                             "",
		"5:cpu,cpuacct:/system.slice/k\n4:memory:/system.slice/k\n0::/system.slice/k\n": "/system.slice/k",
		"5:cpuacct:/a\n4:memory:/b\n0::/\n":                                             "",
		"9:name=systemd:/\n5:cpuacct:/\n4:memory:/\n":                                   "",
	} {
		got, err := OwnCgroup(tree(map[string]string{"self/cgroup": text}))
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"half", "5:half", "x:cpu:/a"} {
		_, err := OwnCgroup(tree(map[string]string{"self/cgroup": text}))
		require.ErrorContains(t, err, `"`+text+`" is not a cgroup entry`)
	}
	_, err := OwnCgroup(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTopology(t *testing.T) {
	cpu := func(socket, core string) string {
		return "processor : 0\nphysical id\t: " + socket + "\ncore id\t\t: " + core + "\n\n"
	}
	require.Equal(t, Topology{Cores: 3, Sockets: 2}, ReadTopology(tree(map[string]string{"cpuinfo": cpu("0", "0") + cpu("0", "0") + cpu("0", "1") + cpu("1", "0")})))
	require.Zero(t, ReadTopology(tree(map[string]string{"cpuinfo": "processor : 0\n"})))
	require.Zero(t, ReadTopology(fstest.MapFS{}))
}

// The root cgroup of v2 has no amounts; they come from the machine.
func TestMachineUsage(t *testing.T) {
	proc := os.DirFS("testdata/proc")
	u, m, err := ReadMachineUsage(reader(t, os.DirFS("testdata/v2"), V2), proc)
	require.NoError(t, err)
	require.Equal(t, 40132*time.Millisecond, *u.CPU.Total, "of the cgroup")
	require.Equal(t, m.Used.Memory, u.Memory.Usage)
	require.Equal(t, *m.Used.Memory-*m.InactiveFile, *u.Memory.WorkingSet)
	require.Equal(t, *m.Memory-*u.Memory.WorkingSet, *u.Memory.Available(nil))
	require.NotNil(t, u.Memory.RSS)
	require.NotNil(t, u.IO)

	u, m, err = ReadMachineUsage(nil, proc)
	require.NoError(t, err)
	require.Equal(t, Swap{Usage: m.Used.Swap, Limit: m.Swap}, u.Swap)
	require.EqualValues(t, 7, *m.fill(Usage{Swap: Swap{Usage: new(uint64(7))}}).Swap.Usage)
	require.Equal(t, m.Busy, u.CPU.Total)
	require.Equal(t, m.Time, u.Time)
	require.Nil(t, u.IO)
	u, _, err = ReadMachineUsage(nil, tree(map[string]string{"pressure/io": "some avg10=1.00 avg60=0.00 avg300=0.00 total=5\n"}))
	require.NoError(t, err)
	require.Equal(t, 5*time.Microsecond, u.IO.Some.Total)
	_, _, err = ReadMachineUsage(nil, nil)
	require.Error(t, err)
}

func TestRates(t *testing.T) {
	var r Rates
	begun := time.Now()
	at := func(after, spent time.Duration) Usage {
		return Usage{Time: begun.Add(after), CPU: CPU{Total: &spent}}
	}
	require.Nil(t, r.Of("a", at(0, 10*time.Second)), "there is one reading")
	require.Nil(t, r.Of("a", at(500*time.Millisecond, 11*time.Second)), "too soon")
	require.EqualValues(t, 500_000_000, *r.Of("a", at(2*time.Second, 11*time.Second)))
	require.EqualValues(t, 500_000_000, *r.Of("a", at(2100*time.Millisecond, 12*time.Second)), "too soon: as before")
	require.EqualValues(t, 1_000_000_000, *r.Of("a", at(3*time.Second, 12*time.Second)))
	require.Zero(t, *r.Of("a", at(4*time.Second, 12*time.Second)))
	require.Nil(t, r.Of("a", at(5*time.Second, time.Second)), "it has run backwards")
	require.EqualValues(t, 1_000_000_000, *r.Of("a", at(6*time.Second, 2*time.Second)))
	require.Nil(t, r.Of("a", Usage{Time: begun.Add(7 * time.Second)}), "it is not known")
	require.Nil(t, r.Of("b", at(6*time.Second, 2*time.Second)))
	require.Nil(t, r.Of("c", at(time.Hour, time.Second)))
	require.Nil(t, r.Of("c", at(time.Hour-5*time.Second, time.Second)), "somebody was slow")
	require.EqualValues(t, 500_000_000, *r.Of("c", at(time.Hour+2*time.Second, 2*time.Second)))
	require.EqualValues(t, 500_000_000, *r.Of("c", at(time.Hour+2*time.Second-time.Minute, 2*time.Second)), "somebody was slow")
	require.Nil(t, r.Of("c", at(time.Second, 3*time.Second)), "the clock was set back")
	require.EqualValues(t, 1_000_000_000, *r.Of("c", at(3*time.Second, 5*time.Second)))
	r.Keep(func(name string) bool { return name == "b" })
	require.Nil(t, r.Of("a", at(8*time.Second, 4*time.Second)), "it was forgotten")
	require.NotNil(t, r.Of("b", at(8*time.Second, 4*time.Second)))
}
