package script_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

// stage is a fake with a player before it.
type stage struct {
	*script.Player
	t    *testing.T
	fake *fake.Runtime
}

// play runs a test in a bubble, on a fake that plays the script.
func play(t *testing.T, text string, test func(s *stage)) {
	t.Helper()
	playOn(t, text, fake.Config{AnyImage: true}, script.Config{}, test)
}

func playOn(t *testing.T, text string, on fake.Config, cfg script.Config, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		parsed, err := script.Parse(text)
		require.NoError(t, err)
		if on.Programs == nil {
			on.Programs = parsed.Programs(nil)
		}
		rt, err := fake.New(on)
		require.NoError(t, err)
		defer func() { require.NoError(t, rt.Close()) }()
		cfg.Script, cfg.Runtime = parsed, rt
		p, err := script.New(cfg)
		require.NoError(t, err)
		test(&stage{Player: p, t: t, fake: rt})
	})
}

func podConfig(namespace, name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: "uid-" + name},
	}
}

func containerConfig(name string, attempt uint32) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: "image-" + name},
	}
}

// pod runs a sandbox in namespace prod, past the script.
func (s *stage) pod(name string) string {
	s.t.Helper()
	id, err := s.fake.RunPodSandbox(s.t.Context(), podConfig("prod", name), "")
	require.NoError(s.t, err)
	return id
}

// container makes a container, past the script.
func (s *stage) container(sandboxID, name string, attempt uint32) string {
	s.t.Helper()
	id, err := s.fake.CreateContainer(s.t.Context(), sandboxID, containerConfig(name, attempt), podConfig("prod", "any"))
	require.NoError(s.t, err)
	return id
}

// started makes and starts a container, past the script.
func (s *stage) started(sandboxID, name string) string {
	s.t.Helper()
	id := s.container(sandboxID, name, 0)
	require.NoError(s.t, s.fake.StartContainer(s.t.Context(), id))
	return id
}

func (s *stage) status(id string) *runtimeapi.ContainerStatus {
	s.t.Helper()
	response, err := s.fake.ContainerStatus(s.t.Context(), id, false)
	require.NoError(s.t, err)
	return response.GetStatus()
}

// takes checks how long a call takes.
func takes(t *testing.T, want time.Duration, call func() error) error {
	t.Helper()
	start := time.Now()
	err := call()
	require.Equal(t, want, time.Since(start))
	return err
}

// collect subscribes to events until the stream ends, and returns their times
// since now, their types, and how the stream ended.
func (s *stage) collect(ctx context.Context) func() ([]delivered, error) {
	start, done := time.Now(), make(chan struct{})
	var events []delivered
	var err error
	go func() {
		defer close(done)
		err = s.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
			events = append(events, delivered{time.Since(start), e.GetContainerId(), e.GetContainerEventType()})
		})
	}()
	synctest.Wait()
	return func() ([]delivered, error) {
		<-done
		return events, err
	}
}

type delivered struct {
	at   time.Duration
	id   string
	what runtimeapi.ContainerEventType
}
