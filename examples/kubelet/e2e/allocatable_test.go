package e2e_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/cgroups"
)

// N22: the cgroup of all pods has the machine's memory without the reserved part, also in the
// kernel's files.
func TestNodeAllocatable(t *testing.T) {
	onRuntimes(t, "systemReserved: {memory: 1Gi, pid: \"100\"}\nkubeReserved: {memory: 512Mi, cpu: 500m}\n", func(t *testing.T, s *scene) {
		tree, err := cgroups.NewTree(cgroups.Cgroupfs, "/podwright-"+s.node)
		require.NoError(t, err)
		wait(t, 10*time.Second, "event NodeAllocatableEnforced", func() error {
			if !strings.Contains(s.log(t), "NodeAllocatableEnforced") {
				return errors.New("not in the log")
			}
			return nil
		})
		want := cgroups.Values{Memory: memTotal(t) - 1536<<20}
		for file, value := range want.Files(hostVersion()) {
			require.Equal(t, value, cgroupFile(t, tree.Path(tree.Pods()), file), file)
		}
	})
}

func memTotal(t *testing.T) int64 {
	data, err := os.ReadFile("/proc/meminfo")
	require.NoError(t, err)
	kib, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	require.NoError(t, err)
	return kib << 10
}
