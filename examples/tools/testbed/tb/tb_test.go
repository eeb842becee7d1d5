package tb

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/tools/internal/control"
	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLookup(t *testing.T) {
	names := []string{env.CRIV1, env.CRIV2}
	for name, tc := range map[string]struct {
		set  map[string]string
		want verdict
	}{
		"no testbed":           {nil, skip},
		"in a testbed":         {map[string]string{env.CRIV1: "a", env.CRIV2: "b", env.RequireCRI: "1"}, use},
		"not required":         {map[string]string{env.CRIV1: "a", env.CRIV2: "b"}, use},
		"incomplete testbed":   {map[string]string{env.CRIV1: "a"}, skip},
		"required, incomplete": {map[string]string{env.CRIV1: "a", env.RequireCRI: "1"}, fail},
		"required, no testbed": {map[string]string{env.RequireCRI: "1"}, fail},
		"required is not 1":    {map[string]string{env.RequireCRI: "0"}, skip},
	} {
		values, got, reason := lookup(func(name string) string { return tc.set[name] }, names)
		require.Equal(t, tc.want, got, name)
		if got == use {
			require.Equal(t, []string{"a", "b"}, values, name)
		} else {
			require.Contains(t, reason, env.CRIV2, name)
		}
	}
}

// serveControl serves a control endpoint that records its requests.
func serveControl(t *testing.T, socket string) <-chan string {
	requests := make(chan string, 10)
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Method + " " + r.URL.Path
		if r.URL.Path == "/v2/resume" {
			http.Error(w, "it does not run", http.StatusInternalServerError)
		}
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return requests
}

// TestDisturbedRuntimeIsStarted: a runtime that a test stopped runs again after the test.
func TestDisturbedRuntimeIsStarted(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "ctl.sock")
	requests := serveControl(t, socket)
	t.Setenv(env.CRIV1, "unix:///1")
	t.Setenv(env.CRIV2, "unix:///2")
	t.Setenv(env.Ctl, socket)
	t.Run("inner", func(t *testing.T) {
		rts := Runtimes(t)
		require.Equal(t, rts, Runtimes(t)) // a second claim does not block
		require.Equal(t, "unix:///2", rts[1].Endpoint)
		rts[1].Kill(t)
		rts[0].Start(t)
	})
	require.Equal(t, "POST /v2/kill", <-requests)
	require.Equal(t, "POST /v1/start", <-requests)
	require.Equal(t, "POST /v2/start", <-requests)
	require.Empty(t, requests)
	_, err := control.Do(t.Context(), http.MethodPost, socket, "/v2/resume", time.Minute)
	require.ErrorContains(t, err, "it does not run")
	_, err = control.Do(t.Context(), http.MethodPost, socket+"x", "/v2/resume", time.Minute)
	require.Error(t, err)
}

const claimVar = "PODWRIGHT_TB_TEST_CLAIM"

// TestClaimer runs in the second test binary of TestOneBinaryAtATime.
func TestClaimer(t *testing.T) {
	path := os.Getenv(claimVar)
	if path == "" {
		t.Skip("not started by TestOneBinaryAtATime")
	}
	require.NoError(t, claim(path))
	require.NoError(t, os.WriteFile(path+".claimed", nil, 0o600))
	appears(t, path+".seen")
	time.Sleep(300 * time.Millisecond) // the first binary tries to claim it meanwhile
	require.NoError(t, os.Remove(path+".claimed"))
}

func appears(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, time.Minute, time.Millisecond)
}

func TestOneBinaryAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tests.lock")
	self, err := os.Executable()
	require.NoError(t, err)
	other := exec.CommandContext(t.Context(), self, "-test.run=^TestClaimer$")
	other.Env = append(os.Environ(), claimVar+"="+path)
	require.NoError(t, other.Start())
	appears(t, path+".claimed")
	require.NoError(t, os.WriteFile(path+".seen", nil, 0o600))
	require.NoError(t, claim(path))
	require.NoFileExists(t, path+".claimed")
	require.NoError(t, other.Wait())
}

func TestTurns(t *testing.T) {
	all := Runtimes(t)
	t.Setenv("PODWRIGHT_EVERY_RUNTIME", "")
	t.Setenv("PODWRIGHT_TURN", "7")
	one := Turns(t)
	require.Equal(t, one, Turns(t))
	t.Setenv("PODWRIGHT_TURN", "8")
	require.ElementsMatch(t, all, append(one, Turns(t)...))
	t.Setenv("PODWRIGHT_EVERY_RUNTIME", "1")
	require.Equal(t, all, Turns(t))
}
