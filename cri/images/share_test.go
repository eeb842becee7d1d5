package images

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
)

type waiter struct {
	cancel context.CancelFunc
	done   chan struct{}
	image  Image
	err    error
}

func ensure(t *testing.T, m *Manager, r Request) *waiter {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiter{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.image, w.err = m.Ensure(ctx, r)
	}()
	synctest.Wait()
	return w
}

func (w *waiter) returned() bool {
	synctest.Wait()
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *waiter) gets(t *testing.T) {
	t.Helper()
	require.True(t, w.returned())
	require.NoError(t, w.err)
}

// byPod maps pods to the user names of their credentials.
func byPod(names map[string]string) credentials.Source {
	return credentials.SourceFunc(func(_ context.Context, pod *v1.Pod, _ string) ([]credentials.Credential, error) {
		if name := names[string(pod.UID)]; name != "" {
			return users(name), nil
		}
		return nil, nil
	})
}

// Pods that need the same image with the same credentials share a pull, also with unlimited
// parallel pulls. A cancelled request leaves the pull to the rest.
func TestSharedPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, events := newService(), &recorder{}
		s.takes(time.Minute)
		m := newManager(t, Config{
			Service: s, Event: events.event, MaxParallelPulls: -1,
			Credentials: byPod(map[string]string{"a": "one", "b": "one", "c": "one", "d": "two"}),
		})
		var pods []*waiter
		for _, uid := range []string{"a", "b", "c", "d", "e"} {
			pods = append(pods, ensure(t, m, request(uid, "a:1", "")))
		}
		require.ElementsMatch(t, []string{"a:1 one", "a:1 two", "a:1"}, s.pulled())
		pods[0].cancel()
		require.True(t, pods[0].returned(), "the first one leaves at once")
		require.ErrorIs(t, pods[0].err, context.Canceled)
		time.Sleep(time.Minute)
		for _, w := range pods[1:] {
			w.gets(t)
			require.Equal(t, "id-a:1", w.image.Ref)
		}
		require.Len(t, s.pulled(), 3)
		count := map[string]int{}
		for _, e := range events.events {
			count[e]++
		}
		require.Equal(t, map[string]int{"Normal Pulling spec.containers{c}": 5, "Normal Pulled spec.containers{c}": 4}, count)
	})
}

// A failed shared pull fails all its requests, and each pod has its own back-off.
func TestSharedFailure(t *testing.T) {
	serving(t, time.Minute, Config{}, func(t *testing.T, s *service, m *Manager) {
		s.set("a:1", errors.New("no such manifest"))
		var pods []*waiter
		for _, uid := range []string{"a", "b"} {
			pods = append(pods, ensure(t, m, request(uid, "a:1", "")))
		}
		time.Sleep(time.Minute)
		for _, w := range pods {
			require.True(t, w.returned())
			require.Equal(t, ReasonErrImagePull, reasonOf(t, w.err).Reason)
		}
		require.Len(t, s.pulled(), 1)
		require.Equal(t, ReasonImagePullBackOff, reasonOf(t, get(t, m, "a", "a:1", "")).Reason)
		s.set("a:1", nil)
		require.NoError(t, get(t, m, "c", "a:1", ""), "a third pod is not held back")
		require.NoError(t, get(t, m, "b", "a:1", ""), "what a third pod pulled ends the wait")
	})
}

// With policy Always a tag is resolved after the request: requests that arrive during a pull share
// the next one. A digest cannot change.
func TestAlwaysSharesTheNextPull(t *testing.T) {
	serving(t, time.Minute, Config{MaxParallelPulls: -1}, func(t *testing.T, s *service, m *Manager) {
		var pods []*waiter
		for i := range 5 {
			pods = append(pods, ensure(t, m, request(fmt.Sprint(i), "a:latest", v1.PullAlways)))
		}
		pods = append(pods, ensure(t, m, request("joins", "a:latest", v1.PullIfNotPresent)))
		_, most := s.load()
		require.Equal(t, 1, most, "one after the other")
		time.Sleep(time.Minute)
		require.True(t, pods[0].returned())
		require.False(t, pods[1].returned())
		time.Sleep(time.Minute)
		for _, w := range pods {
			w.gets(t)
		}
		require.Len(t, s.pulled(), 2)
		ensure(t, m, request("x", "a@"+digest, v1.PullAlways))
		last := ensure(t, m, request("y", "a@"+digest, v1.PullAlways))
		time.Sleep(time.Minute)
		require.True(t, last.returned())
		require.Len(t, s.pulled(), 3)
	})
}

func lines(m *Manager, pod types.UID) (out []string) {
	for _, e := range m.Explain(pod) {
		out = append(out, e.At(time.Now()))
	}
	return out
}

// Explain and OnStep report positions, steps and failures.
func TestExplain(t *testing.T) {
	serving(t, time.Minute, Config{}, func(t *testing.T, s *service, m *Manager) {
		s.set("bad:1", errors.New("no such manifest"))
		var steps []string
		var mu sync.Mutex
		told := func(r Request) Request {
			r.OnStep = func(step string) {
				mu.Lock()
				defer mu.Unlock()
				steps = append(steps, string(r.Pod.UID)+": "+step)
			}
			return r
		}
		ensure(t, m, told(request("a", "bad:1", "")))
		ensure(t, m, told(request("b", "good:1", "")))
		time.Sleep(12 * time.Second)
		require.Equal(t, []string{"image bad:1: pull for 12s"}, lines(m, "a"))
		require.Equal(t, []string{"image good:1: queued (1st, 1 running) for 12s"}, lines(m, "b"))
		require.Empty(t, m.Explain("nobody"))
		pulls := m.Pulls()
		require.Len(t, pulls, 2)
		require.Equal(t, []string{`pod ns/pod-b, container "c"`}, pulls[1].Requests)
		require.Equal(t, 1, pulls[1].Position)
		time.Sleep(51 * time.Second)
		synctest.Wait()
		const failed = `image bad:1: waiting to retry the pull (1 failed) for %s, last error: ErrImagePull: no such manifest`
		require.Equal(t, []string{fmt.Sprintf(failed, "3s") + ", next try in 7s"}, lines(m, "a"))
		time.Sleep(time.Minute)
		require.Equal(t, []string{fmt.Sprintf(failed, "1m3s")}, lines(m, "a"))
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"a: pulling image bad:1", "b: waiting to pull image good:1: 1st in the queue", "b: pulling image good:1"}, steps)
	})
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 111: "111th", 122: "122nd"} {
		require.Equal(t, want, ordinal(n))
	}
}

// An image volume is an ordinary request, except that its events go to the pod.
func TestVolume(t *testing.T) {
	s, events := newService(), &recorder{}
	m := newManager(t, Config{Service: s, Event: events.event})
	r := request("u", "a:1", "")
	r.Container = nil
	r.Volume = &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:1", PullPolicy: v1.PullNever}}}
	_, err := m.Ensure(t.Context(), r)
	require.Equal(t, ReasonErrImageNeverPull, reasonOf(t, err).Reason)
	require.ErrorContains(t, err, `pod ns/pod-u, volume "data"`)
	r.Volume.Image.PullPolicy = v1.PullIfNotPresent
	image, err := m.Ensure(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, Image{Ref: "id-data:1", UserSpecified: "data:1"}, image)
	require.Equal(t, []string{"Warning ErrImageNeverPull ", "Normal Pulling ", "Normal Pulled "}, events.events)
}

// An image counts as in use for five minutes after Ensure returned it.
func TestInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, Config{Service: newService("a:1", "b:1")})
		for _, image := range []string{"a:1", "b:1"} {
			require.NoError(t, get(t, m, "u", image, ""))
			time.Sleep(3 * time.Minute)
		}
		require.Equal(t, []string{"id-b:1"}, m.InUse())
		time.Sleep(3 * time.Minute)
		require.Empty(t, m.InUse())
		require.NoError(t, get(t, m, "u", "a:1", ""))
		require.Len(t, m.lastEnsured, 1)
	})
}

// lingering continues for a while after its pull was cancelled, and then returns its own error.
type lingering struct{ *service }

func (l lingering) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	ref, err := l.service.PullImage(ctx, spec, auth, sandbox)
	if ctx.Err() != nil {
		time.Sleep(10 * time.Second)
		err = errors.New("interrupted")
	}
	return ref, err
}

// The last request waits until the runtime's call has returned. A request that arrives meanwhile
// starts its own pull, and the outcome of the first pull stays in doubt.
func TestRuntimeLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store, err := records.Open(records.Config{Dir: dir})
		require.NoError(t, err)
		s := newService()
		s.takes(time.Hour)
		m := newManager(t, Config{Service: lingering{s}, MaxParallelPulls: 2, Records: store})
		first := ensure(t, m, request("a", "a:1", ""))
		first.cancel()
		require.False(t, first.returned())
		s.takes(time.Second)
		second := ensure(t, m, request("b", "a:1", ""))
		time.Sleep(time.Second)
		second.gets(t)
		require.False(t, first.returned())
		time.Sleep(9 * time.Second)
		require.True(t, first.returned())
		require.ErrorIs(t, first.err, context.Canceled)
		files, err := filepath.Glob(filepath.Join(dir, "pulling", "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
	})
}
