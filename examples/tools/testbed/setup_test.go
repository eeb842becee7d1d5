package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/internal/image"
	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

func TestParseArgs(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want *options
	}{
		"command":        {[]string{"--", "go", "test", "-v"}, &options{lanes: 2, argv: []string{"go", "test", "-v"}}},
		"without dashes": {[]string{"env"}, &options{lanes: 2, argv: []string{"env"}}},
		"logs":           {[]string{"-logs", "x", "--", "env"}, &options{lanes: 2, logs: "x", argv: []string{"env"}}},
		"dashes twice":   {[]string{"--", "sh", "--", "x"}, &options{lanes: 2, argv: []string{"sh", "--", "x"}}},
		"all":            {[]string{"-all"}, &options{all: true, lanes: 2, argv: []string{}}},
		"part of all": {
			[]string{"-all", "-run", "X", "-timing", "-lanes", "3", "./cri"},
			&options{all: true, timing: true, run: "X", lanes: 3, argv: []string{"./cri"}},
		},
		"no lanes":      {[]string{"-all", "-lanes", "0"}, nil},
		"control plane": {[]string{"-controlplane", "--", "env"}, &options{controlPlane: true, lanes: 2, argv: []string{"env"}}},
		"nothing":       {nil, nil},
		"only dashes":   {[]string{"--"}, nil},
		"empty command": {[]string{"--", ""}, nil},
		"unknown flag":  {[]string{"-x", "--", "env"}, nil},
	} {
		got, err := parseArgs(tc.args)
		if tc.want == nil {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, *tc.want, got, name)
	}
	require.Equal(t, exitUsage, run(t.Context(), nil))
}

func TestWithoutOurs(t *testing.T) {
	in := []string{"HOME=/root", env.RequireCRI + "=1", env.Run + "=a", env.CRIV1 + "=", "PODWRIGHT_OTHER=kept", env.ImageTestprog2 + "=x", env.ControlPlane + "=/a"}
	require.Equal(t, []string{"HOME=/root", "PODWRIGHT_OTHER=kept"}, withoutTestbedVars(in))
}

func TestSessionEnviron(t *testing.T) {
	s := &session{
		run: testRecord(), registry: &imageRegistry{&httpServer{addr: "127.0.0.1:5000"}},
		runtimes: []*containerd{{instance: testInstance("v1")}, {instance: testInstance("v2")}},
	}
	got := s.environ([]string{"HOME=/root", env.CRIV1 + "=unix:///of/an/outer/testbed"})
	require.Len(t, withoutTestbedVars(got), 2) // HOME and TMPDIR: isTestbedVar matches all other variables
	require.Len(t, got, 2+10)
	require.Contains(t, got, env.CRIV1+"=unix:///tmp/pwtb-0a1b2c/v1/c.sock")
	require.Contains(t, got, env.CRIV2+"=unix:///tmp/pwtb-0a1b2c/v2/c.sock")
	require.Contains(t, got, env.ImageTestprog2+"=127.0.0.1:5000/podwright/testprog:v2")
	require.NotContains(t, got, env.CRIV1+"=unix:///of/an/outer/testbed")
}

func TestGoEnv(t *testing.T) {
	got := goEnv([]string{"HOME=/root", "GOBIN=/x", "GOWORK=/y/go.work", "GOFLAGS=-race", "GOOS=plan9", "CGO_ENABLED=1"}, "/bin")
	require.Equal(t, []string{"HOME=/root", "GOBIN=/bin", "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0"}, got)
}

func TestToolFacts(t *testing.T) {
	require.True(t, isContainerd1("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n"))
	require.True(t, isContainerd1("containerd containerd.io v1.7.0 abc\n"))
	require.False(t, isContainerd1("containerd github.com/containerd/containerd/v2 2.2.1+unknown \n"))
	require.False(t, isContainerd1(""))
	require.False(t, isStatic(filepath.Join(t.TempDir(), "none")))

	caps, err := effectiveCaps("Name:\tx\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n")
	require.NoError(t, err)
	require.EqualValues(t, 0x1fffeffffff, caps)
	_, err = effectiveCaps("Name:\tx\n")
	require.Error(t, err)
}

// TestImages: the registry serves the images of the embedded programs, and equal content has the
// same digest.
func TestImages(t *testing.T) {
	c := cache{dir: t.TempDir()}
	pause, err := buildProgram(t.Context(), c, "pause")
	require.NoError(t, err)
	require.True(t, isStatic(pause))
	again, err := buildProgram(t.Context(), c, "pause")
	require.NoError(t, err)
	require.Equal(t, pause, again)

	recipes := []recipe{
		{name: "a:v1", fs: image.Files{}.Program("pause", pause), entrypoint: []string{"/pause"}},
		{name: "a:v2", fs: image.Files{}.Program("pause", pause), env: []string{"X=y"}},
		{name: "b:v1", fs: busyboxFS(pause, []string{"busybox", "sh"}), cmd: []string{"sh"}},
	}
	images, err := assemble(recipes)
	require.NoError(t, err)
	same, err := assemble(recipes)
	require.NoError(t, err)

	r, err := startRegistry(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.close()) }()
	require.NoError(t, r.push(t.Context(), images))
	digests := map[string]bool{}
	for i, image := range images {
		want, err := same[i].img.Digest()
		require.NoError(t, err)
		ref, err := name.ParseReference(r.ref(image.name))
		require.NoError(t, err)
		transport := &http.Transport{DisableKeepAlives: true}
		got, err := remote.Head(ref, remote.WithContext(t.Context()), remote.WithTransport(transport))
		require.NoError(t, err)
		require.Equal(t, want, got.Digest)
		digests[got.Digest.String()] = true
	}
	require.Len(t, digests, len(images))

	_, err = assemble([]recipe{{name: "c:v1", fs: image.Files{}.Program("x", filepath.Join(c.dir, "none"))}})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLockedExcludes(t *testing.T) {
	c := cache{dir: t.TempDir()}
	var inside atomic.Int32
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			done <- c.locked(t.Context(), "x", func() error {
				if inside.Add(1) != 1 {
					return errors.New("concurrent holders of the lock")
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				return nil
			})
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := c.locked(t.Context(), "x", func() error {
		cancel(errors.New("enough"))
		return c.locked(ctx, "x", func() error { return nil })
	})
	require.ErrorContains(t, err, "enough")
}

// TestControlWithoutRuntimes: the control endpoint's responses for a runtime that does not run.
func TestControlWithoutRuntimes(t *testing.T) {
	h := controlHandler([]*containerd{{instance: testInstance("v1"), report: &reporter{w: io.Discard}, closed: true}})
	for request, want := range map[string]int{
		"POST /v1/stop": 200, "POST /v1/kill": 200, // it has already ended
		"POST /v1/pause": 500, "POST /v1/resume": 500, "POST /v1/start": 500,
		"GET /v1/stop": 405, "POST /v2/stop": 404, "POST /v1/explode": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		require.Equal(t, want, w.Code, request)
	}
}
