package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "test", "run", "run /tmp", "build x", "test -x", "boot", "test -timeout x ./a", "test -timeout 0s ./a"} {
		_, err := parse(strings.Fields(bad))
		require.Error(t, err, bad)
	}
	o, err := parse([]string{"test", "-timeout", "2m", "-run", "X", "./a", "./b"})
	require.NoError(t, err)
	require.Equal(t, options{verb: "test", timeout: 2 * time.Minute, run: "X", args: []string{"./a", "./b"}}, o)
	o, err = parse([]string{"run", "/tmp", "a b"})
	require.NoError(t, err)
	require.Equal(t, options{verb: "run", timeout: 10 * time.Minute, run: "^TestGuest", args: []string{"/tmp", "a b"}}, o)
}

func TestQuote(t *testing.T) {
	for _, text := range []string{"a", "a'b", "$x `y` \"z\" ''"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(text)).Output()
		require.NoError(t, err)
		require.Equal(t, text, string(out))
	}
}

func TestCopyLines(t *testing.T) {
	var out bytes.Buffer
	copyLines(&out, strings.NewReader("a\r\r\nb\r\nc"))
	require.Equal(t, "a\nb\nc", out.String())
}

// guestPackages are the packages with tests for the guest.
var guestPackages = []string{
	"github.com/podwright/podwright/examples/kubelet/cgroups",
	"github.com/podwright/podwright/examples/kubelet/e2e/guest",
	"github.com/podwright/podwright/examples/tools/testbed/vm",
	"github.com/podwright/podwright/volume/nfs",
	"github.com/podwright/podwright/volume/usage",
}

var inGuest = flag.Bool("guest", false, "boot the guest and run all tests that need it: ten minutes, as root")

// TestPackages boots the guest once and runs the tests for it.
func TestPackages(t *testing.T) {
	if !*inGuest {
		t.Skip("takes minutes: go test ./examples/tools/testbed/vm -guest")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	img, err := ensureImage(ctx, os.Stderr)
	require.NoError(t, err)
	var out bytes.Buffer
	code, err := img.test(ctx, "^TestGuest", guestPackages, &out)
	t.Log(out.String())
	require.NoError(t, err)
	require.Zero(t, code)
	for _, p := range guestPackages {
		require.Contains(t, out.String(), "ok "+p+"\n")
	}
	require.NotContains(t, out.String(), "no tests to run")
}

// TestGuest checks that the guest has its features.
func TestGuest(t *testing.T) {
	if os.Getenv("PODWRIGHT_GUEST") == "" {
		t.Skip("runs in the guest: go run ./examples/tools/testbed/vm test ./examples/tools/testbed/vm")
	}
	name, err := os.ReadFile("/proc/1/comm")
	require.NoError(t, err)
	require.Equal(t, "systemd\n", string(name))
	for file, want := range map[string]string{
		"/sys/fs/cgroup/cgroup.controllers":              "memory",
		"/sys/kernel/security/apparmor/profiles":         "",
		"/run/containerd/containerd.sock":                "",
		"/run/systemd/system":                            "",
		"/usr/sbin/mount.nfs":                            "",
		"/sys/fs/cgroup/system.slice/cgroup.controllers": "",
	} {
		_, err := os.Stat(file)
		require.NoError(t, err)
		if want != "" {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(text), want)
		}
	}
	require.NoError(t, exec.Command("systemctl", "is-active", "--quiet", "systemd-logind").Run())
}
