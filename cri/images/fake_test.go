package images

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// service is an in-memory image service. Because it embeds the interface, an unexpected call
// panics.
type service struct {
	cri.ImageService

	mu         sync.Mutex
	images     map[string]*runtimeapi.Image // by name and by ID
	fail       map[string]error             // errors of pulls, by name
	inspect    error
	took       time.Duration
	pulls      []string // "image user"
	running    int
	most       int
	pulledWith context.Context
}

func newService(present ...string) *service {
	s := &service{images: map[string]*runtimeapi.Image{}, fail: map[string]error{}}
	for _, name := range present {
		s.add(name)
	}
	return s
}

func (s *service) add(name string) string {
	image := &runtimeapi.Image{Id: "id-" + name, Size: 42}
	s.images[name], s.images[image.Id] = image, image
	return image.Id
}

func (s *service) ImageStatus(ctx context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.inspect != nil {
		return nil, s.inspect
	}
	return &runtimeapi.ImageStatusResponse{Image: s.images[spec.Image]}, nil
}

func (s *service) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	s.mu.Lock()
	s.pulls = append(s.pulls, strings.TrimSpace(spec.Image+" "+auth.GetUsername()))
	s.pulledWith = ctx
	s.running++
	s.most = max(s.most, s.running)
	took := s.took
	s.mu.Unlock()
	timer := time.NewTimer(took)
	defer timer.Stop()
	var called error
	select {
	case <-timer.C:
	case <-ctx.Done():
		called = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if called != nil {
		return "", called
	}
	if err := s.fail[strings.TrimSpace(spec.Image+" "+auth.GetUsername())]; err != nil {
		return "", err
	}
	return s.add(spec.Image), nil
}

func (s *service) set(image string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[image] = err
}

func (s *service) takes(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = d
}

// load returns the number of running pulls and its maximum so far.
func (s *service) load() (running, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.most
}

func (s *service) pulled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.pulls...)
}

// recorder records events as "Type Reason fieldPath".
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) event(ref v1.ObjectReference, eventtype, reason, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s", eventtype, reason, ref.FieldPath))
}

func request(uid, image string, policy v1.PullPolicy) Request {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image, ImagePullPolicy: policy}}},
	}
	return Request{Pod: pod, Container: &pod.Spec.Containers[0]}
}

func newManager(t *testing.T, cfg Config) *Manager {
	t.Helper()
	m, err := New(cfg)
	require.NoError(t, err)
	return m
}

// serving runs a test in a bubble, with a service whose pulls take took.
func serving(t *testing.T, took time.Duration, cfg Config, test func(t *testing.T, s *service, m *Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.takes(took)
		cfg.Service = s
		test(t, s, newManager(t, cfg))
	})
}

func get(t *testing.T, m *Manager, uid, image string, policy v1.PullPolicy) error {
	t.Helper()
	_, err := m.Ensure(t.Context(), request(uid, image, policy))
	return err
}

func reasonOf(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
