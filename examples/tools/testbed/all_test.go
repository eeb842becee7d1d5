package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
	"github.com/podwright/podwright/examples/tools/testbed/internal/results"
)

func TestRepeat(t *testing.T) {
	t.Setenv(env.Turn, "7")
	s := &suite{packages: packages{runtime: []string{modulePath + "/cri/pods"}, controlPlane: []string{modulePath + "/examples/operator"}}}
	for _, c := range []struct{ pkg, test, want string }{
		{modulePath, "TestX", "go test -race -run '^TestX$' ./"},
		{modulePath + "/probe", "", "go test -race ./probe"},
		{modulePath + "/cri/pods", "TestX/a_b", "PODWRIGHT_TURN=7 go run ./examples/tools/testbed -- go test -race -run '^TestX$/^a_b$' ./cri/pods"},
		{modulePath + "/examples/operator", "TestX", "PODWRIGHT_TURN=7 go run ./examples/tools/testbed -controlplane -- go test -race -run '^TestX$' ./examples/operator"},
		{modulePath + "/examples/tools/controlplane", "TestX", "GOWORK=off go test -C examples/tools/controlplane -race -run '^TestX$' ."},
	} {
		require.Equal(t, c.want, s.repeat(c.pkg, c.test))
	}
}

// A test program that go test runs through the testbed keeps its exit code, and the table includes
// its time.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	s := &suite{outside: filepath.Join(dir, "examples/tools/controlplane"), dir: dir}
	var out strings.Builder
	s.log = results.New(&out, s.repeat)
	require.NoError(t, s.readMeasurements(), "no program has run")
	t.Chdir(dir)
	require.Equal(t, 3, runMeasured(s.measurements(), []string{"sh", "-c", "exit 3"}))
	require.NoError(t, os.Mkdir("probe", 0o755))
	t.Chdir("probe")
	require.Zero(t, runMeasured(s.measurements(), []string{"true"}))
	require.NoError(t, s.readMeasurements())
	require.NoError(t, s.log.Table(&out))
	require.Regexp(t, `(?m) `+modulePath+`$`, out.String())
	require.Regexp(t, `(?m) `+modulePath+`/probe$`, out.String())
	require.NotZero(t, runMeasured(s.measurements(), []string{filepath.Join(dir, "none")}))
}

// All processes of a group end with its context and with its first process.
func TestGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo $! > "+pidFile)
	require.NoError(t, runGroup(cmd, nil))
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	}, time.Minute, 10*time.Millisecond)

	failed := exec.CommandContext(t.Context(), "sleep", "1000")
	require.ErrorIs(t, runGroup(failed, func(int) error { return os.ErrInvalid }), os.ErrInvalid)
	require.True(t, exited(runGroup(exec.CommandContext(t.Context(), "false"), nil)))
}

// Tests of the packages in separatePackages become separate jobs.
func TestSplitJobs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho TestA\necho TestB\necho ok\n"), 0o755))
	s := &suite{opts: options{run: "X/y"}}
	whole, err := s.split(t.Context(), job{pkg: "p", program: program})
	require.NoError(t, err)
	require.Equal(t, []job{{pkg: "p", program: program}}, whole)
	split, err := s.split(t.Context(), job{pkg: separatePackages[0], program: program})
	require.NoError(t, err)
	require.Equal(t, []job{{pkg: separatePackages[0], program: program, test: "TestA"}, {pkg: separatePackages[0], program: program, test: "TestB"}}, split)
	require.Contains(t, s.command(t.Context(), split[1]).Args, "-test.run=^TestB$/y")
	require.Contains(t, s.command(t.Context(), whole[0]).Args, "-test.run=X/y")
}

// A run removes the folders of killed runs, and keeps the folders of running ones.
func TestFoldersOfKilledRuns(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, lock, err := newTestDir()
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	living, lock, err := newTestDir()
	require.NoError(t, err)
	defer lock.Close()
	_, lock2, err := newTestDir()
	require.NoError(t, err)
	defer lock2.Close()
	require.NoDirExists(t, killed)
	require.DirExists(t, living)
}
