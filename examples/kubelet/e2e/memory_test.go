package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// maxMemory bounds the kubelet's peak resident memory, in bytes.
const maxMemory = 200 << 20

// lean returns a kubelet built with the documented flags. The race detector would multiply its
// memory.
func lean(t *testing.T) func(*testing.T, options) *kubelet {
	program(t) // skips with -short
	binary := filepath.Join(t.TempDir(), "kubelet")
	build := exec.Command("go", "build", "-tags=grpcnotrace", "-o", binary, "github.com/podwright/podwright/examples/kubelet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	return func(t *testing.T, o options) *kubelet {
		k := newKubelet(t, o)
		k.bin = binary
		return k
	}
}

// requireBounded requires that the peak of the resident memory was below the limit.
func (k *kubelet) requireBounded(t *testing.T) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.proc.cmd.Process.Pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	t.Logf("peak of the resident memory: %d MiB", kib>>10)
	require.Less(t, kib<<10, maxMemory)
}

// awaitLog waits until the log contains more than n lines with the texts.
func (k *kubelet) awaitLog(t *testing.T, n int, texts ...string) {
	wait(t, time.Minute, fmt.Sprint("the log contains ", texts), func() error {
		if len(k.logLines(t, texts...)) <= n {
			return errors.New("no such line")
		}
		return nil
	})
}

// Responses of the API server and output of credential plugins without end, and lists of 60,000
// entries of the runtime, keep the kubelet's memory below its limit, and the errors contain the size
// limits. This test needs no testbed.
func TestMemoryIsBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: pods get cgroups")
	}
	newLean := lean(t)
	for name, test := range map[string]func(*testing.T, func(*testing.T, options) *kubelet){
		"API server":         testEndlessServer,
		"runtime":            testLongLists,
		"credential plugins": testEndlessPlugins,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newLean)
		})
	}
}

// endlessServer is an API server whose responses to some calls do not end.
type endlessServer struct {
	*apitest.Server
	endless atomic.Pointer[endless]
}

type endless struct {
	calls       string // "list", "watch", "object" or "any"
	contentType string
	begin       string // of the body, which continues with many "x"
	err         string // in the log, unless it was logged before
}

func callOf(r *http.Request) string {
	switch {
	case r.URL.Query().Has("watch"):
		return "watch"
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "s"):
		return "list"
	}
	return "object"
}

func (s *endlessServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := s.endless.Load()
	if e == nil || e.calls != "any" && e.calls != callOf(r) {
		s.Server.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", e.contentType)
	_, err := io.WriteString(w, e.begin)
	for block := strings.Repeat("x", 64<<10); err == nil && s.endless.Load() == e; {
		_, err = io.WriteString(w, block)
	}
}

func testEndlessServer(t *testing.T, newLean func(*testing.T, options) *kubelet) {
	s := &endlessServer{Server: apitest.New()}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.endless.Store(nil)
		s.CloseWatches()
		server.CloseClientConnections()
		server.Close()
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(apitest.Kubeconfig(server.URL, "token: t")), 0o600))
	k := newLean(t, options{node: "bounded", endpoint: "unix://" + serveFake(t), config: fmt.Sprintf("port: %d\nauthorization: {mode: AlwaysAllow}", freePort(t))})
	k.args = append(k.args, "--kubeconfig="+kubeconfig)
	for i := range 20 {
		meta := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i)}
		s.Put(&v1.Secret{ObjectMeta: meta})
		s.Put(&v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{
			NodeName: k.node, HostNetwork: true, Containers: []v1.Container{{Name: "c", Image: "i", ImagePullPolicy: v1.PullNever}},
			Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: meta.Name}}}},
		}})
	}
	k.start(t)
	k.awaitLog(t, 19, `msg="Container started"`)
	const json, protobuf, exceeds = "application/json", "application/vnd.kubernetes.protobuf;stream=watch", "exceeds the limit of "
	for _, e := range []endless{
		{"list", json, `{"kind":"PodList","items":[],"a":"`, exceeds + "33554432 bytes"},
		{"watch", protobuf, "\x00\xff\xff\xff", exceeds + "16777216 bytes"},
		{"watch", json, `{"type":"ADDED","object":{"a":"`, ""},
		{"object", json, `{"kind":"Node","a":"`, ""},
		{"any", json, `{"kind":"Node","a":"`, ""},
	} {
		s.endless.Store(&e)
		s.Forget()
		s.CloseWatches()
		if e.err != "" {
			k.awaitLog(t, 0, e.err)
		}
		time.Sleep(2 * time.Second) // more responses, as long as the server sends
		s.endless.Store(nil)
	}
	k.requireBounded(t)
}

// longRuntime adds entries to the lists of a runtime.
type longRuntime struct {
	*fake.Runtime
	more atomic.Int64
}

func (r *longRuntime) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	out, err := r.Runtime.ListContainers(ctx, f)
	for i := range r.more.Load() {
		out = append(out, &runtimeapi.Container{
			Id: fmt.Sprintf("%064d", i), PodSandboxId: fmt.Sprintf("%064d", i), Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "i"},
			Labels: map[string]string{labels.PodUID: fmt.Sprint("u", i), labels.ContainerName: "c"},
		})
	}
	return out, err
}

func (r *longRuntime) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	out, err := r.Runtime.ListPodSandbox(ctx, f)
	for i := range r.more.Load() {
		meta := &runtimeapi.PodSandboxMetadata{Name: fmt.Sprint("p", i), Uid: fmt.Sprint("u", i), Namespace: "default"}
		out = append(out, &runtimeapi.PodSandbox{Id: fmt.Sprintf("%064d", i), Metadata: meta, Labels: map[string]string{labels.PodUID: meta.Uid}})
	}
	return out, err
}

func (r *longRuntime) ListImages(ctx context.Context, f *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	out, err := r.Runtime.ListImages(ctx, f)
	for i := range r.more.Load() {
		out = append(out, &runtimeapi.Image{Id: fmt.Sprintf("sha256:%064d", i), RepoTags: []string{fmt.Sprint("i", i)}, Size: 1})
	}
	return out, err
}

func testLongLists(t *testing.T, newLean func(*testing.T, options) *kubelet) {
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	long := &longRuntime{Runtime: rt}
	server := grpc.NewServer(rt.ServerOptions()...)
	fake.Register(server, long, long)
	l := listenUnix(t)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, errors.Join(<-done, rt.Close()))
	})
	long.more.Store(60_000)
	k := newLean(t, options{node: "long", endpoint: "unix://" + l.Addr().String()})
	k.start(t)
	for _, call := range []string{"ListPodSandbox", "ListContainers", "ListImages"} {
		k.awaitLog(t, 0, call, "reply exceeds 40000 entries")
	}
	k.awaitLog(t, 4, "ListPodSandbox", "reply exceeds 40000 entries")
	k.requireBounded(t)
}

func testEndlessPlugins(t *testing.T, newLean func(*testing.T, options) *kubelet) {
	dir := t.TempDir()
	config := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for name, script := range map[string]string{"out": "exec cat /dev/zero", "err": "exec cat /dev/zero >&2"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		config += fmt.Sprintf("- {name: %q, matchImages: [example.com], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", name)
	}
	file := filepath.Join(t.TempDir(), "providers.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	k := newLean(t, options{node: "plugins", endpoint: "unix://" + serveFake(t)})
	k.args = append(k.args, "--image-credential-provider-config="+file, "--image-credential-provider-bin-dir="+dir)
	c := testprog("example.com/i", "run")
	c.ImagePullPolicy = v1.PullAlways
	k.writeManifest(t, "p.yaml", newPod("p", c))
	k.start(t)
	k.awaitLog(t, 0, "reply exceeds 1048576 bytes")
	k.awaitLog(t, 0, "error output exceeds 16777216 bytes")
	k.requireBounded(t)
}

func listenUnix(t *testing.T) net.Listener {
	dir, err := os.MkdirTemp("", "e") // socket paths are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	return l
}

// serveFake serves a runtime in memory whose containers sleep.
func serveFake(t *testing.T) string {
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(t, err)
	l := listenUnix(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, errors.Join(<-done, rt.Close()))
	})
	return l.Addr().String()
}
