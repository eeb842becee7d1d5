package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podwright/podwright/cri/pods"
)

// describeNode looks at the node as far as containers depend on it. What cannot
// be read keeps its zero value, which is the careful choice for each field.
func describeNode(name, root string) pods.Node {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return pods.Node{
		Name:           name,
		MemoryCapacity: memoryCapacity("/proc/meminfo"),
		CgroupV2:       err == nil,
		SeccompRoot:    filepath.Join(root, "seccomp"),
	}
}

// memoryCapacity reads MemTotal, in bytes.
func memoryCapacity(meminfo string) int64 {
	data, err := os.ReadFile(meminfo)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0
		}
		return kib * 1024
	}
	return 0
}
