package agent

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

const manifest = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: busybox}]}}`

// runs tells whether one pod is there, and runs.
func runs(a *Agent) bool {
	pods, _, err := a.Pods()
	return err == nil && len(pods) == 1 && pods[0].Status.Phase == "Running"
}

// An empty list of pods says that there are none. Until that can be told, there is no list.
func TestPodsAreNotKnownYet(t *testing.T) {
	var manifests atomic.Bool
	asked := make(chan struct{})
	var once sync.Once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if once.Do(func() { close(asked) }); !manifests.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, manifest)
	}))
	defer web.Close()
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	connected := make(chan struct{})
	cfg := configOf(t.TempDir(), func(ctx context.Context) (*Connection, error) {
		select {
		case <-ctx.Done():
		case <-connected:
		}
		return &Connection{Runtime: rt, Images: rt, Name: "fake", Close: func() error { return nil }}, nil
	})
	cfg.Kubelet.StaticPodURL, cfg.Kubelet.HTTPCheckFrequency.Duration = web.URL, 20*time.Millisecond
	a, err := New(cfg)
	require.NoError(t, err)
	_, _, err = a.Pods()
	require.EqualError(t, err, "the pods are not known: the agent is not running yet")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	close(connected)
	<-asked
	_, _, err = a.Pods()
	require.EqualError(t, err, `the pods are not known: the pods of source "http" have not been read`)
	manifests.Store(true)
	require.Eventually(t, func() bool { return runs(a) }, time.Minute, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	_, _, err = a.Pods()
	require.EqualError(t, err, "the pods are not known: the agent is stopped")
}

// One Agent can be run again: it finds the container of its former run, which it
// left alone.
func TestRunAgain(t *testing.T) {
	dir := t.TempDir()
	manifests := filepath.Join(dir, "manifests")
	require.NoError(t, os.Mkdir(manifests, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(manifests, "p.yaml"), []byte(manifest), 0o600))
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	closed := 0
	cfg := configOf(dir, func(context.Context) (*Connection, error) {
		return &Connection{Runtime: rt, Images: rt, Name: "fake", Close: func() error { closed++; return nil }}, nil
	})
	cfg.Kubelet.StaticPodPath = manifests
	a, err := New(cfg)
	require.NoError(t, err)

	running := func() (ids []string) {
		list, err := rt.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		for _, c := range list {
			if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				ids = append(ids, c.Id)
			}
		}
		return ids
	}
	run := func(during func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		during()
		cancel()
		require.NoError(t, <-done)
	}
	run(func() {
		require.Eventually(t, func() bool { return len(running()) == 1 }, time.Minute, 10*time.Millisecond)
	})
	first := running()
	require.Len(t, first, 1)
	run(func() {
		require.Eventually(t, func() bool { return runs(a) }, time.Minute, 10*time.Millisecond)
	})
	require.Equal(t, first, running())
	require.Equal(t, 2, closed)
	require.False(t, a.Health()[0].OK)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Run(ctx), "a run that ends before it begins")
	require.Equal(t, first, running())
}

// Pods come from a web server, with the header that it wants; what is wrong with
// them is in the report.
func TestManifestURL(t *testing.T) {
	var body atomic.Value
	body.Store(manifest)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, body.Load().(string))
	}))
	defer web.Close()
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	cfg := configOf(t.TempDir(), func(context.Context) (*Connection, error) {
		return &Connection{Runtime: rt, Images: rt, Name: "fake", Close: func() error { return nil }}, nil
	})
	cfg.Kubelet.StaticPodURL, cfg.Kubelet.StaticPodURLHeader = web.URL, http.Header{"Authorization": {"Bearer x"}}
	cfg.Kubelet.HTTPCheckFrequency.Duration = 20 * time.Millisecond
	a, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	require.Eventually(t, func() bool { return runs(a) }, time.Minute, 10*time.Millisecond)
	pods, _, err := a.Pods()
	require.NoError(t, err)
	require.Equal(t, "http", pods[0].Annotations["kubernetes.io/config.source"])
	body.Store("kind: Service")
	require.Eventually(t, func() bool { return len(a.Report().Manifests) == 1 }, time.Minute, 10*time.Millisecond)
	problem := a.Report().Manifests[0]
	require.Equal(t, web.URL, problem.Path)
	require.True(t, problem.KeptPrevious)
	require.True(t, runs(a))
	cancel()
	require.NoError(t, <-done)
}
