package critest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/difference"
)

// waitTimeout bounds the wait of a case for an asynchronous effect. Only failing tests reach it.
const waitTimeout = 2 * time.Minute

const (
	// absentID has the form of an id, but no object has it.
	absentID = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00"
	// absentImage is an image that is absent; its host cannot exist.
	absentImage = "critest.invalid/none:1"
)

// env has the runtime of a case, and helpers that fail the test.
type env struct {
	Subject
	t      testing.TB
	ctx    context.Context
	report *report
}

func newEnv(t testing.TB, s Subject, r *report) *env {
	t.Helper()
	require.NotNil(t, s.Runtime, "Subject.Runtime")
	require.NotNil(t, s.Images, "Subject.Images")
	require.NotEmpty(t, s.Image, "Subject.Image")
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	e := &env{Subject: s, t: t, ctx: ctx, report: r}
	version, err := s.Runtime.Version(ctx)
	require.NoError(t, err)
	r.names(version)
	image := &runtimeapi.ImageSpec{Image: e.Image}
	present, err := e.Images.ImageStatus(e.ctx, image, false)
	require.NoError(t, err)
	if present.GetImage() == nil {
		_, err = e.Images.PullImage(e.ctx, image, nil, nil)
		require.NoError(t, err)
	}
	return e
}

// pod returns the config of a unique pod. Its logs go to a folder of the test.
func (e *env) pod() *runtimeapi.PodSandboxConfig {
	uid := strings.ToLower(rand.Text())
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "critest-" + uid[:8], Namespace: "critest", Uid: uid},
		Hostname:     "critest",
		LogDirectory: e.t.TempDir(),
		Labels:       map[string]string{"io.kubernetes.pod.uid": uid, "critest": uid},
		Annotations:  map[string]string{"critest/note": "a note"},
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
}

// hostPod returns the config of a pod on the host's network, which starts faster.
func (e *env) hostPod() *runtimeapi.PodSandboxConfig {
	pod := e.pod()
	pod.Hostname = ""
	pod.Linux.SecurityContext = &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}
	return pod
}

// container returns the config of a container that runs a command of programs.go.
func (e *env) container(name string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: e.Image},
		Command:  command,
		LogPath:  name + ".log",
		Labels:   map[string]string{"critest/container": name},
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}
}

// run runs a sandbox and removes it at the end of the test.
func (e *env) run(config *runtimeapi.PodSandboxConfig) string {
	e.t.Helper()
	id, err := e.Runtime.RunPodSandbox(e.ctx, config, "")
	require.NoError(e.t, err)
	e.t.Cleanup(func() { e.removePod(id) })
	return id
}

func (e *env) runHost() (pod *runtimeapi.PodSandboxConfig, id string) {
	e.t.Helper()
	pod = e.hostPod()
	return pod, e.run(pod)
}

func (e *env) removePod(sandboxID string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), waitTimeout)
	defer cancel()
	require.NoError(e.t, ignoreNotFound(e.Runtime.StopPodSandbox(ctx, sandboxID)))
	require.NoError(e.t, ignoreNotFound(e.Runtime.RemovePodSandbox(ctx, sandboxID)))
}

func (e *env) create(sandboxID string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) string {
	e.t.Helper()
	id, err := e.Runtime.CreateContainer(e.ctx, sandboxID, config, pod)
	require.NoError(e.t, err)
	return id
}

func (e *env) start(sandboxID string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) string {
	e.t.Helper()
	id := e.create(sandboxID, config, pod)
	require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
	return id
}

// alone creates or starts a container with a program in a new hostPod.
func (e *env) alone(begin func(string, *runtimeapi.ContainerConfig, *runtimeapi.PodSandboxConfig) string, what program) string {
	e.t.Helper()
	pod, sandbox := e.runHost()
	return begin(sandbox, e.container("c", what.command()...), pod)
}

// startReady starts a program and waits until it has printed "ready".
func (e *env) startReady(sandboxID string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) string {
	e.t.Helper()
	id := e.start(sandboxID, config, pod)
	e.eventually("ready in the log", func() bool {
		log, _ := os.ReadFile(filepath.Join(pod.LogDirectory, config.LogPath))
		return strings.Contains(string(log), "ready")
	})
	return id
}

// mount mounts an empty folder of the host at /data.
func (e *env) mount(config *runtimeapi.ContainerConfig) (dir string) {
	dir = e.t.TempDir()
	config.Mounts = append(config.Mounts, &runtimeapi.Mount{ContainerPath: "/data", HostPath: dir})
	return dir
}

// printedEnv runs the program envPrinter in a container to its end and returns its output.
func (e *env) printedEnv(pod *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig) map[string]string {
	e.t.Helper()
	dir := e.mount(config)
	require.Zero(e.t, e.exited(e.start(e.run(pod), config, pod)).GetExitCode())
	text, err := os.ReadFile(filepath.Join(dir, "environment"))
	require.NoError(e.t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		out[key] = value
	}
	return out
}

func (e *env) status(id string) *runtimeapi.ContainerStatus {
	e.t.Helper()
	response, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	require.NoError(e.t, err)
	require.NotNil(e.t, response.GetStatus())
	return response.GetStatus()
}

func (e *env) sandbox(id string) *runtimeapi.PodSandboxStatus {
	e.t.Helper()
	response, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
	require.NoError(e.t, err)
	require.NotNil(e.t, response.GetStatus())
	return response.GetStatus()
}

// notReady waits until a stopped sandbox is not ready, and returns its status. containerd 2.2 on a
// loaded machine takes a moment.
func (e *env) notReady(id string) *runtimeapi.PodSandboxStatus {
	e.t.Helper()
	var status *runtimeapi.PodSandboxStatus
	e.eventually("the end of a stopped sandbox", func() bool {
		status = e.sandbox(id)
		return status.GetState() == runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	})
	return status
}

func (e *env) sandboxes(pod *runtimeapi.PodSandboxConfig) []*runtimeapi.PodSandbox {
	e.t.Helper()
	list, err := e.Runtime.ListPodSandbox(e.ctx, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"critest": pod.Metadata.Uid}})
	require.NoError(e.t, err)
	return list
}

func (e *env) containers(sandboxID string) []*runtimeapi.Container {
	e.t.Helper()
	list, err := e.Runtime.ListContainers(e.ctx, &runtimeapi.ContainerFilter{PodSandboxId: sandboxID})
	require.NoError(e.t, err)
	return list
}

func (e *env) same(want, got proto.Message) {
	e.t.Helper()
	require.True(e.t, proto.Equal(want, got), "the %s differs:\n%s", want.ProtoReflect().Descriptor().Name(), difference.Of(fields(got), fields(want)))
}

// fields returns a message for difference.Of.
func fields(m proto.Message) json.RawMessage {
	text, err := protojson.Marshal(m)
	if err != nil { // it has invalid UTF-8
		text, _ = json.Marshal(m)
	}
	return text
}

// recent requires a timestamp between before and now. The clocks of caller and runtime may differ
// by a second.
func (e *env) recent(before time.Time, nanoseconds int64) {
	e.t.Helper()
	at := time.Unix(0, nanoseconds)
	require.False(e.t, at.Before(before.Add(-time.Second)), "%v is before %v", at, before)
	require.False(e.t, at.After(time.Now().Add(time.Second)), "%v is in the future", at)
}

// optional skips the case if err shows that the runtime lacks call.
func (e *env) optional(call string, err error) {
	e.t.Helper()
	if cri.IsUnimplemented(err) {
		e.lacks(call)
	}
}

// lacks skips the case because the runtime lacks an optional call or field.
func (e *env) lacks(feature string) {
	e.t.Helper()
	e.report.lacks(feature)
	e.t.Skipf("the runtime lacks %s", feature)
}

// notFound requires the error for a missing object.
func (e *env) notFound(err error) {
	e.t.Helper()
	require.Error(e.t, err)
	require.True(e.t, cri.IsNotFound(err), "want NotFound, got %v", err)
}

func (e *env) noContainer(id string) {
	e.t.Helper()
	_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	e.notFound(err)
}

func (e *env) noSandbox(id string) {
	e.t.Helper()
	_, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
	e.notFound(err)
}

// refused requires that the runtime itself refused a call: the error is neither a timeout nor
// Unimplemented, and the runtime is still alive.
func (e *env) refused(err error) {
	e.t.Helper()
	require.Error(e.t, err)
	require.NotContains(e.t, []codes.Code{codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented}, status.Code(err), "%v", err)
	require.NoError(e.t, e.ctx.Err())
	_, alive := e.Runtime.Version(e.ctx)
	require.NoError(e.t, alive, "the runtime after %v", err)
}

// eventually waits until ok returns true. It checks forty times a second.
func (e *env) eventually(what string, ok func() bool) {
	e.t.Helper()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			require.FailNow(e.t, "waited in vain", what)
		}
	}
}

// exited waits for the end of a container and returns its status.
func (e *env) exited(id string) *runtimeapi.ContainerStatus {
	e.t.Helper()
	var status *runtimeapi.ContainerStatus
	e.eventually("the container's end", func() bool {
		status = e.status(id)
		return status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return status
}
