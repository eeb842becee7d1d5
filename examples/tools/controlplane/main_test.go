package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asProgram is the variable that makes the test binary run as the program.
const asProgram = "CONTROLPLANE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestParseArgs(t *testing.T) {
	o, err := parseArgs([]string{"-controller-manager=false", "-node", "n", "--", "go", "test", "-v"})
	require.NoError(t, err)
	require.Equal(t, options{scheduler: true, node: "n", argv: []string{"go", "test", "-v"}}, o)
	o, err = parseArgs([]string{"-build", "kubectl,kubelet"})
	require.NoError(t, err)
	require.Equal(t, []string{"kubectl", "kubelet"}, o.build)
	require.NotEmpty(t, o.node)
	require.Empty(t, o.argv)
	_, err = parseArgs([]string{"-unknown"})
	require.ErrorContains(t, err, "-unknown")
}

func TestRunCommand(t *testing.T) {
	for script, want := range map[string]int{"exit 3": 3, `test "$A" = b`: 0, "kill -KILL $$": 128 + 9} {
		code, err := runCommand([]string{"sh", "-c", script}, []string{"A=b"}, nil)
		require.NoError(t, err, script)
		require.Equal(t, want, code, script)
	}
	_, err := runCommand([]string{"/no/such/command"}, nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSignalsArePassedOn(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	code, err := runCommand([]string{"sleep", "60"}, nil, signals)
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGTERM), code)
}

func TestWatchdogRemovesTheFolder(t *testing.T) {
	t.Setenv(asProgram, "1")
	dir := t.TempDir() + "/run"
	require.NoError(t, os.MkdirAll(dir+"/etcd/member", 0o700))
	w, err := startWatchdog(dir)
	require.NoError(t, err)
	require.DirExists(t, dir)
	require.NoError(t, w.finish())
	require.NoDirExists(t, dir)
}

func TestSteps(t *testing.T) {
	var out lines
	report := &reporter{w: &out}
	require.NoError(t, report.step("walk", func() error { return nil }))
	require.ErrorContains(t, report.step("fall", func() error { return os.ErrClosed }), "fall: ")
	require.Len(t, out, 1)
	require.Regexp(t, `^controlplane: walk \(.*s\)\n$`, out[0])
}

type lines []string

func (l *lines) Write(text []byte) (int, error) {
	*l = append(*l, string(text))
	return len(text), nil
}

// eventually waits up to a minute for a condition that other processes fulfil.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 10*time.Millisecond, what)
}
