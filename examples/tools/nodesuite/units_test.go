package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/internal/control"
)

func TestParseRun(t *testing.T) {
	s, err := parseRun([]string{
		"-p", "Delegate=true", "-p", "StandardError=append:/r/kubelet.log", "--unit=kubelet-20260101T000000.service", "--slice=runtime.slice",
		"--remain-after-exit", "/bin/kubelet", "--a", "50%%", "-p", "$$HOME",
	})
	require.NoError(t, err)
	require.Equal(t, service{name: "kubelet-20260101T000000", log: "/r/kubelet.log", argv: []string{"/bin/kubelet", "--a", "50%", "-p", "$HOME"}}, s)
	for message, args := range map[string][]string{
		"no unit":               {"-p", "StandardError=append:/l", "true"},
		"no log file":           {"--unit=u", "true"},
		"no command":            {"--unit=u", "-p", "StandardError=append:/l"},
		"unsupported argument ": {"--scope", "true"},
	} {
		_, err := parseRun(args)
		require.ErrorContains(t, err, message)
	}
}

func TestParseControl(t *testing.T) {
	c, err := parseControl([]string{"list-units", "*kubelet*", "--state=running"})
	require.NoError(t, err)
	require.Equal(t, controlCall{verb: "list-units", units: []string{"*kubelet*"}, running: true}, c)
	c, err = parseControl([]string{"restart", "u.service"})
	require.NoError(t, err)
	require.Equal(t, controlCall{verb: "restart", units: []string{"u"}}, c)
	for _, args := range [][]string{nil, {"mask", "u"}, {"stop"}, {"stop", "a", "b"}, {"kill", "--now", "u"}} {
		_, err := parseControl(args)
		require.Error(t, err, args)
	}
}

// The stand-ins reach the services over the socket, and a unit can be killed, listed, restarted
// and stopped.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	socket, log := filepath.Join(dir, "s"), filepath.Join(dir, "log")
	u := &units{environ: []string{"GREETING=hello"}}
	stop, err := u.serve(t.Context(), socket)
	require.NoError(t, err)
	defer func() { stop() }()
	call := func(program string, args ...string) (string, error) {
		out, err := control.Do(t.Context(), http.MethodPost, socket, requestPath(program, args), time.Minute)
		return string(out), err
	}
	lines := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(log)
			return err == nil && string(text) == want
		}, 10*time.Second, time.Millisecond)
	}
	start := []string{"-p", "StandardError=append:" + log, "--unit=kubelet-1.service", "/bin/sh", "-c", "echo $$GREETING; exec sleep 1000"}

	out, err := call("systemd-run", "--version")
	require.NoError(t, err)
	require.Regexp(t, `^systemd \d+`, out)
	_, err = call("systemd-run", start...)
	require.NoError(t, err)
	lines("hello\n")
	_, err = call("systemd-run", start...)
	require.ErrorContains(t, err, "unit kubelet-1 exists")

	out, err = call("systemctl", "list-units", "*kubelet*", "--state=running")
	require.NoError(t, err)
	require.Contains(t, out, "  kubelet-1.service loaded active running /bin/sh")
	_, err = call("systemctl", "kill", "kubelet-1")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		out, err := call("systemctl", "list-units", "*kubelet*")
		return err == nil && strings.Contains(out, " exited ")
	}, 10*time.Second, time.Millisecond)
	out, err = call("systemctl", "list-units", "*kubelet*", "--state=running")
	require.NoError(t, err)
	require.Empty(t, out)

	for _, verb := range []string{"reset-failed", "restart", "start"} { // start has no effect on a running unit
		_, err = call("systemctl", verb, "kubelet-1")
		require.NoError(t, err, verb)
	}
	lines("hello\nhello\n")
	_, err = call("systemctl", "stop", "kubelet-1.service")
	require.NoError(t, err)
	_, err = call("systemctl", "restart", "kubelet-1")
	require.ErrorContains(t, err, "unit kubelet-1 not found")

	_, err = call("systemd-run", start...)
	require.NoError(t, err)
	left := u.units["kubelet-1"]
	stop()
	stop = func() {}
	require.False(t, left.running(), "the services end with the server")
}

func TestStandInNames(t *testing.T) {
	_, ok := standIn([]string{"/x/nodesuite", "systemctl"})
	require.False(t, ok)
	t.Setenv(socketVariable, filepath.Join(t.TempDir(), "none"))
	code, ok := standIn([]string{"/x/systemctl", "stop", "u"})
	require.True(t, ok)
	require.Equal(t, 1, code)
	require.Error(t, execute(nil))
	require.Error(t, execute([]string{"no-such-program"}))
}
