package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	here := filepath.Join(t.TempDir(), "here")
	require.NoError(t, os.WriteFile(here, nil, 0o600))
	for name, tc := range map[string]struct {
		args []string
		code int
		fail bool
	}{
		"exit":          {args: []string{"exit", "7", "1ms"}, code: 7},
		"exit 0":        {args: []string{"exit"}},
		"lines":         {args: []string{"lines", "3"}},
		"exists":        {args: []string{"exists", here}},
		"exists not":    {args: []string{"exists", here + "x"}, code: 1},
		"no path":       {args: []string{"exists"}, fail: true},
		"file no path":  {args: []string{"file"}, fail: true},
		"note no path":  {args: []string{"note"}, fail: true},
		"note no place": {args: []string{"note", filepath.Join(here, "below")}, fail: true},
		"bad code":      {args: []string{"exit", "x"}, fail: true},
		"bad duration":  {args: []string{"exit", "0", "x"}, fail: true},
		"unknown":       {args: []string{"explode"}, fail: true},
		"file no place": {args: []string{"file", filepath.Join(here, "below", "a", "file")}, fail: true},
	} {
		code, err := run(tc.args[0], tc.args[1:])
		require.Equal(t, tc.fail, err != nil, name)
		require.Equal(t, tc.code, code, name)
	}
}

const crashVar = "PODWRIGHT_TESTPROG_CRASH"

// TestCrash: the parent sees the signal as the cause of the end.
func TestCrash(t *testing.T) {
	if os.Getenv(crashVar) != "" {
		_, err := run("crash", []string{os.Getenv(crashVar)})
		require.NoError(t, err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for number, sig := range map[string]syscall.Signal{"6": syscall.SIGABRT, "11": syscall.SIGSEGV, "9": syscall.SIGKILL} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), crashVar+"="+number)
		require.Error(t, cmd.Run())
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.True(t, status.Signaled(), number)
		require.Equal(t, sig, status.Signal())
	}
}

func TestRoutes(t *testing.T) {
	exit := make(chan int, 1)
	h := routes(exit)
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	require.Equal(t, 200, get("/healthz"))
	require.Equal(t, 200, get("/fail"))
	require.Equal(t, 500, get("/healthz"))
	require.Equal(t, 200, get("/ok"))
	require.Equal(t, 200, get("/healthz"))
	require.Equal(t, 200, get("/version"))
	require.Equal(t, 400, get("/exit?code=x"))
	require.Equal(t, 200, get("/exit?code=5"))
	require.Equal(t, 200, get("/exit?code=6"))
	require.Equal(t, 5, <-exit)
}
