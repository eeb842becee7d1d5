package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/examples/kubelet/e2e/internal/stuck"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// scene is a kubelet on one of the testbed's runtimes, with a client for direct access to that
// runtime.
type scene struct {
	*kubelet
	runtime tb.Runtime
	images  tb.ImageNames
	cri     *cri.RuntimeClient
	stuck   stuck.Starts
}

// onRuntimes runs a test with a started kubelet on the runtimes of tb.Turns, in parallel.
func onRuntimes(t *testing.T, config string, test func(t *testing.T, s *scene)) {
	t.Helper()
	onEach(t, tb.Turns, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		s := newScene(t, rt, images, options{config: config, endpoint: rt.Endpoint})
		s.start(t)
		test(t, s)
	})
}

// onEach runs a test on each of the runtimes in parallel.
func onEach(t *testing.T, runtimes func(testing.TB) []tb.Runtime, test func(t *testing.T, rt tb.Runtime, images tb.ImageNames)) {
	t.Helper()
	images := tb.Images(t)
	program(t)
	for _, rt := range runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			test(t, rt, images)
		})
	}
}

// newScene prepares a scene without starting its kubelet. The clean-up removes the scene's pods
// and fails if remains of them stay.
func newScene(t *testing.T, rt tb.Runtime, images tb.ImageNames, o options) *scene {
	t.Helper()
	o.node = fmt.Sprintf("n%08x", rand.Uint32())
	client, err := cri.DialRuntime(t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &scene{runtime: rt, images: images, cri: client}
	s.kubelet = newKubelet(t, o)
	t.Cleanup(func() { s.cleanUp(t) })
	t.Cleanup(func() { s.printLog(t) }) // before the clean-up extends the log
	return s
}

// cleanUp removes all manifests and waits until all traces of their pods are removed. It
// restarts the runtime if a container is stuck after a kill of the kubelet.
func (s *scene) cleanUp(t testing.TB) {
	entries, err := os.ReadDir(s.manifests)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(s.manifestPath(e.Name())))
	}
	if !s.alive() {
		s.start(t)
	}
	s.stuck.Skip(s.log(t))
	s.waitUnstuck(t, time.Minute, "the pods have no remains", func() error {
		return errors.Join(s.empty(), emptyFolder(s.root+"/pods"), emptyFolder(s.logs), s.noLinks(""), s.noCgroups())
	})
	s.kill(t)
	tb.RemoveCgroups(t, "/podwright-"+s.node)
}

// waitUnstuck waits for cond. After each restart of the runtime the limit begins again and is 90 s
// longer: containerd 2 loses the state of a stuck container, and the kubelet checks unknown states
// at its next resync, at most 90 s later.
func (s *scene) waitUnstuck(t testing.TB, limit time.Duration, goal string, cond func() error) {
	t.Helper()
	since, usual := time.Now(), limit
	wait(t, 10*time.Minute, goal, func() error {
		if s.stuck.Free(t, s.log(t), s.runtime) {
			since, limit = time.Now(), usual+90*time.Second
		}
		err := cond()
		if err != nil && time.Since(since) > limit {
			w, lookErr := s.runtimeState()
			t.Fatalf("after %d starts of the kubelet: %s: not within %s: %v\n\nthe runtime has %s %v", s.launches, goal, limit, err, w, lookErr)
		}
		return err
	})
}

// empty returns an error if the runtime has sandboxes or containers of the scene's pods.
func (s *scene) empty() error {
	w, err := s.runtimeState()
	if err != nil {
		return err
	}
	return w.empty()
}

// noCgroups returns an error if cgroups of pods exist.
func (s *scene) noCgroups() error {
	if left := tb.PodCgroups("/podwright-" + s.node); len(left) > 0 {
		return fmt.Errorf("cgroups %v", left)
	}
	return nil
}

func emptyFolder(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s has %s", path, entries[0].Name())
	}
	return err
}

// linkDir is the folder of the kubelet's links to container logs. It does not depend on the root.
const linkDir = "/var/log/containers"

func (s *scene) link(pod, container, id string) string {
	return fmt.Sprintf("%s/%s-%s_default_%s-%s.log", linkDir, pod, s.node, container, bareID(id))
}

// noLinks returns an error if links exist for the pods of the name, or for any pod of this node if
// name is "".
func (s *scene) noLinks(name string) error {
	entries, err := os.ReadDir(linkDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), name+"-"+s.node+"_") {
			return fmt.Errorf("%s has %s", linkDir, e.Name())
		}
	}
	return err
}

// runtimeState is the state of this scene's pods in the runtime.
type runtimeState struct {
	node       string
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

func (s *scene) runtimeState() (runtimeState, error) {
	w := runtimeState{node: s.node}
	sandboxes, err := s.cri.ListPodSandbox(context.Background(), nil)
	if err != nil {
		return w, err
	}
	containers, err := s.cri.ListContainers(context.Background(), nil)
	w.sandboxes, w.containers = sandboxes, containers
	return w.where(func(pod string) bool { return strings.HasSuffix(pod, "-"+s.node) }), err
}

// where returns the part that belongs to pods with matching names.
func (w runtimeState) where(match func(pod string) bool) runtimeState {
	w.sandboxes = filter(w.sandboxes, func(b *runtimeapi.PodSandbox) bool { return match(b.Labels[labels.PodName]) })
	w.containers = filter(w.containers, func(c *runtimeapi.Container) bool { return match(c.Labels[labels.PodName]) })
	return w
}

func filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(one T) bool { return !keep(one) })
}

func (s *scene) mustRuntimeState(t testing.TB) runtimeState {
	t.Helper()
	w, err := s.runtimeState()
	require.NoError(t, err)
	return w
}

func (w runtimeState) empty() error {
	if len(w.sandboxes)+len(w.containers) == 0 {
		return nil
	}
	return fmt.Errorf("the runtime has %s", w)
}

// of returns the part that belongs to the pods of one name.
func (w runtimeState) of(name string) runtimeState {
	return w.where(func(pod string) bool { return pod == name+"-"+w.node })
}

func (w runtimeState) running() []*runtimeapi.Container {
	return filter(w.containers, func(c *runtimeapi.Container) bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING })
}

func (w runtimeState) ready() []*runtimeapi.PodSandbox {
	return filter(w.sandboxes, func(b *runtimeapi.PodSandbox) bool { return b.State == runtimeapi.PodSandboxState_SANDBOX_READY })
}

// ids identifies the running containers for comparisons over time: a map from pod and container
// to container ID, sandbox ID and restart count.
func (w runtimeState) ids() map[string]string {
	out := map[string]string{}
	for _, c := range w.running() {
		key := strings.TrimSuffix(c.Labels[labels.PodName], "-"+w.node) + "/" + c.Metadata.Name
		out[key] += fmt.Sprintf("%s in %s attempt %d;", c.Id, c.PodSandboxId, c.Metadata.Attempt)
	}
	return out
}

func (w runtimeState) String() string {
	var parts []string
	for _, b := range w.sandboxes {
		parts = append(parts, fmt.Sprintf("sandbox %s %s %s", b.Metadata.Name, b.Id[:8], b.State))
	}
	for _, c := range w.containers {
		parts = append(parts, fmt.Sprintf("container %s/%s #%d %s %s", c.Labels[labels.PodName], c.Metadata.Name, c.Metadata.Attempt, c.Id[:8], c.State))
	}
	return strings.Join(parts, ", ")
}

func bareID(id string) string {
	_, bare, found := strings.Cut(id, "://")
	if !found {
		return id
	}
	return bare
}

// noRemains returns nil if the runtime, the disk and /pods have no remains of the pods of the name.
func (s *scene) noRemains(name string, uids ...string) error {
	w, err := s.runtimeState()
	if err != nil {
		return err
	}
	all, err := s.pods()
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Name == name+"-"+s.node {
			return fmt.Errorf("/pods has %s", brief(&p))
		}
	}
	errs := []error{w.of(name).empty(), s.noLinks(name)}
	for _, uid := range uids {
		for _, path := range []string{s.root + "/pods/" + uid, pods.LogDir(s.logs, "default", name+"-"+s.node, "") + uid} {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("leftover %s", path))
			}
		}
	}
	return errors.Join(errs...)
}

// newPod returns a pod on the host network with a grace period of 2 s.
func newPod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.PodSpec{HostNetwork: true, TerminationGracePeriodSeconds: new(int64(2)), Containers: containers},
	}
}

// testprog returns a container "main" that runs the testprog of an image.
func testprog(image string, args ...string) v1.Container {
	return v1.Container{Name: "main", Image: image, ImagePullPolicy: v1.PullIfNotPresent, Command: append([]string{"/testprog"}, args...)}
}

func shell(name, image, script string) v1.Container {
	return v1.Container{Name: name, Image: image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sh", "-c"}, Args: []string{script}}
}

// untilTerm ends a script with a loop that runs until SIGTERM.
const untilTerm = "\ntrap 'exit 0' TERM; while true; do sleep 60 & wait $!; done"

func fileHas(path, text string) error {
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), text) {
		err = fmt.Errorf("no %q in %q", text, tail(string(data), 500))
	}
	return err
}
