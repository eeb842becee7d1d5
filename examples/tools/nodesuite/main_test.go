package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSelection(t *testing.T) {
	for want, s := range map[string]selection{
		"(NodeConformance && !Slow && !Flaky) && !Serial": {},
		"(NodeConformance && !Slow && !Flaky) && Serial":  {serial: true},
		"(!Flaky) && !Serial":                             {focus: "Sysctls"},
		"(Feature: isEmpty) && Serial":                    {focus: "Sysctls", labels: "Feature: isEmpty", serial: true},
	} {
		require.Equal(t, want, s.filter())
	}
}

func TestParseArgs(t *testing.T) {
	o, err := parseArgs([]string{"-kubelet", "x/kubelet", "-alone", "-focus", "A|B", "-serial", "-runtime", "v1"})
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(o.kubelet))
	require.Equal(t, selection{focus: "A|B", serial: true}, o.selection)
	for _, args := range [][]string{{"spec"}, {"-alone", "-upstream", "x"}, {"-procs", "0"}, {"-runtime", "v3"}, {"-none"}} {
		_, err := parseArgs(args)
		require.Error(t, err, args)
	}
}

func TestSuiteArgs(t *testing.T) {
	s := suite{options: options{selection: selection{focus: "F", skip: "S"}, procs: 3}, endpoint: "unix:///c.sock"}
	args := s.args("/d/e2e_node.test", "/r")
	require.Subset(t, args, []string{"--k8s-bin-dir=/d/bin", "--focus=F", "--skip=S", "--procs=3", "--label-filter=(!Flaky) && !Serial", "--container-runtime-endpoint=unix:///c.sock"})
	for i, arg := range args {
		if arg == "--" {
			require.Equal(t, "/d/e2e_node.test", args[i-1])
		}
	}
	require.NotContains(t, suite{}.args("/d/e2e_node.test", "/r"), "--focus=")
}

func TestGoEnv(t *testing.T) {
	require.Equal(t, []string{"HOME=/root", "GOWORK=off", "GOFLAGS=-trimpath -p=1", "CGO_ENABLED=0"},
		goEnv([]string{"GOWORK=/w", "HOME=/root", "GOFLAGS=-p=1 -race", "GOOS=windows", "CGO_ENABLED=1"}))
}

// Only mounts of this program are undone, and only the topmost of each path.
func TestStaleMounts(t *testing.T) {
	const info = `22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 254:0 /tmp/pwtb-1/t/nodesuite-12/ours/root/var/lib/kubelet//deleted /var/lib/kubelet rw shared:1 - ext4 /dev/vda rw
41 40 0:50 / /var/lib/kubelet/pods/x rw - tmpfs tmpfs rw
42 22 254:0 /tmp/nodesuite-12/ours/root/var/log/pods /var/log/pods rw - ext4 /dev/vda rw
43 42 254:0 /srv/logs /var/log/pods rw - ext4 /dev/vda rw
`
	require.Equal(t, []string{"/var/lib/kubelet"}, staleMounts(info))
	require.Empty(t, staleMounts(""))
}
