package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"net/http/httptest"
)

// scripted returns a component that runs a shell script. It is ready once the script has created
// the file $1.
func scripted(t *testing.T, script string) (*component, <-chan error) {
	dir := t.TempDir()
	died := make(chan error, 10)
	c := &component{
		name: "script", dir: dir, log: filepath.Join(dir, "log"), args: []string{"-c", script, "script", "ready"},
		program: func(context.Context) (string, error) { return "/bin/sh", nil },
		died:    func(_ string, err error) { died <- err },
	}
	c.ready = func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "ready"))
		return err
	}
	t.Cleanup(func() { require.NoError(t, c.kill(context.Background())) })
	return c, died
}

func TestComponentStartsAndStops(t *testing.T) {
	c, died := scripted(t, `echo on >> lives; echo made > $1; exec sleep 60`)
	for range 2 {
		require.NoError(t, c.start(t.Context()))
		require.NoError(t, c.start(t.Context())) // a second start of a running component succeeds
		require.True(t, c.running())
		require.NoError(t, c.stop(t.Context()))
		require.False(t, c.running())
		require.NoError(t, c.stop(t.Context()))
		require.NoError(t, os.Remove(filepath.Join(c.dir, "ready")))
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "lives"))
	require.NoError(t, err)
	require.Equal(t, "on\non\n", string(text))
	require.Empty(t, died, "a requested stop is not reported")
}

func TestComponentNeverReady(t *testing.T) {
	c, _ := scripted(t, "echo no such flag >&2; exit 1")
	err := c.start(t.Context())
	require.ErrorContains(t, err, "script exited before it was ready")
	require.ErrorContains(t, err, "no such flag")

	c, _ = scripted(t, "exec sleep 60")
	ctx, cancel := context.WithCancelCause(t.Context())
	polls := 0
	cause := errors.New("no more")
	c.ready = func(context.Context) error {
		if polls++; polls == 3 {
			cancel(cause)
		}
		return errors.New("not yet")
	}
	err = c.start(ctx)
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "not yet")
}

func TestUnexpectedExitOfComponent(t *testing.T) {
	c, died := scripted(t, `echo made > $1; while test -e $1; do sleep 0.01; done; echo no memory; exit 7`)
	require.NoError(t, c.start(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(c.dir, "ready")))
	err := <-died
	require.ErrorIs(t, err, errUnrequestedEnd)
	require.ErrorContains(t, err, "exit status 7")
	require.ErrorContains(t, err, "no memory")
	require.Error(t, c.pause(t.Context()))
}

func TestComponentIsPaused(t *testing.T) {
	c, _ := scripted(t, `echo made > $1; exec sleep 60`)
	require.NoError(t, c.start(t.Context()))
	state := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.process.cmd.Process.Pid))
		require.NoError(t, err)
		return strings.Fields(string(text))[2]
	}
	require.NoError(t, c.pause(t.Context()))
	require.NoError(t, c.pause(t.Context()))
	require.Equal(t, "T", state())
	require.NoError(t, c.start(t.Context()))
	eventually(t, "still running", func() bool { return state() == "S" })
	require.NoError(t, c.pause(t.Context()))
	require.NoError(t, c.stop(t.Context())) // stop also continues the process
}

func TestCheckOK(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	require.NoError(t, checkOK(t.Context(), s.Client(), s.URL+"/good"))
	require.ErrorContains(t, checkOK(t.Context(), s.Client(), s.URL+"/bad"), "503")
}
