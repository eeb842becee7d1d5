package syncloop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recorder records the calls of a handler and runs hooks.
type recorder struct {
	mu      sync.Mutex
	calls   []string
	onCall  func(call string)
	onSync  func()
	onClean func(context.Context) error
}

func (h *recorder) note(call string) {
	h.mu.Lock()
	h.calls = append(h.calls, call)
	h.mu.Unlock()
	if h.onCall != nil {
		h.onCall(call)
	}
}

func (h *recorder) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// names returns the pods' names with their versions.
func names(pods []*v1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name+pod.Spec.Hostname)
	}
	return strings.Join(list, ",")
}

func (h *recorder) HandlePodAdditions(_ context.Context, pods []*v1.Pod) {
	h.note("add " + names(pods))
}
func (h *recorder) HandlePodUpdates(_ context.Context, pods []*v1.Pod) {
	h.note("update " + names(pods))
}
func (h *recorder) HandlePodRemoves(_ context.Context, pods []*v1.Pod) {
	h.note("remove " + names(pods))
}
func (h *recorder) HandlePodReconcile(_ context.Context, pods []*v1.Pod) {
	h.note("reconcile " + names(pods))
}

func (h *recorder) HandlePodSyncs(_ context.Context, syncs []Sync) {
	for _, s := range syncs {
		h.note(fmt.Sprintf("sync %s (%s)", s.UID, s.Kinds))
	}
	if h.onSync != nil {
		h.onSync()
	}
}

func (h *recorder) HandlePodCleanups(ctx context.Context) error {
	h.note("cleanup")
	if h.onClean != nil {
		return h.onClean(ctx)
	}
	return nil
}

// script is a PodSource whose sets a test provides.
type script struct {
	mu      sync.Mutex
	sets    map[string][]*v1.Pod
	handled []string
}

func newScript() *script { return &script{sets: map[string][]*v1.Pod{}} }

func (s *script) put(source string, pods ...*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[source] = pods
}

func (s *script) Pods(source string) (pods []*v1.Pod, delivered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods, delivered = s.sets[source]
	return pods, delivered
}

func (s *script) Handled(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled = append(s.handled, source)
}

// bubble runs a Loop and the test in a synctest bubble.
func bubble(t *testing.T, edit func(*Config), use func(t *testing.T, l *Loop, h *recorder, pods *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, pods := &recorder{}, newScript()
		cfg := Config{Handler: h, Pods: pods, HousekeepingPeriod: time.Hour}
		if edit != nil {
			edit(&cfg)
		}
		l, err := New(cfg)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		use(t, l, h, pods)
		stop()
		require.NoError(t, <-done)
	})
}

func testPod(name string, uid types.UID, edits ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// version sets the version of a pod.
func version(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Hostname = name }
}

func labelled(pod *v1.Pod) { pod.Labels = map[string]string{"a": "b"} }

func running(pod *v1.Pod) { pod.Status.Phase = v1.PodRunning }

func deleted(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)} }
