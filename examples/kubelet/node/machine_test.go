package node

import (
	"maps"
	"os"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	nodestatus "github.com/podwright/podwright/status/node"
)

func files(pairs map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, data := range pairs {
		root[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return root
}

func completeMachine() map[string]string {
	return map[string]string{
		"etc/machine-id":                                           "f00d\n",
		"sys/class/dmi/id/product_uuid":                            "ABCD-EF\n",
		"proc/sys/kernel/random/boot_id":                           "b007\n",
		"proc/sys/kernel/osrelease":                                "6.1.0-18-amd64\n",
		"proc/sys/kernel/pid_max":                                  "4194304\n",
		"proc/sys/kernel/threads-max":                              "30000\n",
		"sys/devices/system/cpu/online":                            "0-2,5,7-8\n",
		"proc/meminfo":                                             "MemTotal:       8000 kB\nMemFree: 1 kB\nodd\nSwapTotal:  12 kB\nHugePages_Total: 3\n",
		"etc/os-release":                                           "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "3\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
		"sys/kernel/mm/hugepages/odd/nr_hugepages":                 "0\n",
	}
}

func TestReadMachine(t *testing.T) {
	m, err := ReadMachine(files(completeMachine()))
	require.NoError(t, err)
	require.Equal(t, nodestatus.Machine{
		ID: "f00d", SystemUUID: "ABCD-EF", BootID: "b007", Cores: 6, Memory: 8000 << 10, Swap: 12 << 10,
		HugePages: map[int64]int64{2 << 20: 6 << 20, 1 << 30: 0}, Pids: 30000,
	}, m)
	require.Equal(t, nodestatus.Versions{Kernel: "6.1.0-18-amd64", OSImage: "Debian GNU/Linux 12 (bookworm)", OS: runtime.GOOS, Architecture: runtime.GOARCH},
		ReadVersions(files(completeMachine())))

	bare := completeMachine()
	maps.DeleteFunc(bare, func(name, _ string) bool {
		return name != "proc/meminfo" && name != "proc/sys/kernel/random/boot_id" && name != "sys/devices/system/cpu/online"
	})
	bare["var/lib/dbus/machine-id"] = "d-bus"
	m, err = ReadMachine(files(bare))
	require.NoError(t, err)
	require.Equal(t, "d-bus", m.ID)
	require.Empty(t, m.HugePages)
	require.Zero(t, m.Pids)
	require.Equal(t, "Unknown", ReadVersions(files(bare)).OSImage)
}

func TestReadUnusualMachine(t *testing.T) {
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online":  "3-1",
		"proc/meminfo":                   "MemFree: 3 kB",
		"proc/sys/kernel/random/boot_id": "",
	} {
		odd := completeMachine()
		odd[name] = text
		_, err := ReadMachine(files(odd))
		require.ErrorContains(t, err, name)
		delete(odd, name)
		_, err = ReadMachine(files(odd))
		require.ErrorContains(t, err, name)
	}
}

func TestReadThisMachine(t *testing.T) {
	m, err := ReadMachine(os.DirFS("/"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, m.Cores, int64(runtime.NumCPU()))
	require.Greater(t, m.Memory, int64(64<<20))
	require.NotEmpty(t, ReadVersions(os.DirFS("/")).Kernel)
	storage, err := StorageOf(t.TempDir())()
	require.NoError(t, err)
	require.Positive(t, storage)
	_, err = StorageOf("/not/there")()
	require.ErrorIs(t, err, os.ErrNotExist)
}
