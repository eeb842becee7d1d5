package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/imageref"
)

const digest = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"

// users makes a credential of each name.
func users(names ...string) (out []credentials.Credential) {
	for _, name := range names {
		out = append(out, credentials.Credential{Auth: &runtimeapi.AuthConfig{Username: name}})
	}
	return out
}

func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Service":         {},
		"Backoff.Initial": {Service: newService(), Backoff: Backoff{Initial: -1}},
		"Backoff.Forget":  {Service: newService(), Backoff: Backoff{Forget: -1}},
		"Burst":           {Service: newService(), Burst: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
	_, err := newManager(t, Config{Service: newService()}).Ensure(t.Context(), Request{})
	require.ErrorContains(t, err, "Request.Pod")
}

// C25 and the table of policies.
func TestPolicies(t *testing.T) {
	const (
		pull  = "Normal Pulling spec.containers{c}"
		ready = "Normal Pulled spec.containers{c}"
	)
	for _, tc := range []struct {
		name, image string
		policy      v1.PullPolicy
		present     string
		events      []string
		reason      string
	}{
		{"always, present", "a:1", v1.PullAlways, "a:1", []string{pull, ready}, ""},
		{"always, absent", "a:1", v1.PullAlways, "", []string{pull, ready}, ""},
		{"if not present, present", "a:1", v1.PullIfNotPresent, "a:1", []string{ready}, ""},
		{"if not present, absent", "a:1", v1.PullIfNotPresent, "", []string{pull, ready}, ""},
		{"never, present", "a:1", v1.PullNever, "a:1", []string{ready}, ""},
		{"never, absent", "a:1", v1.PullNever, "", []string{"Warning ErrImageNeverPull spec.containers{c}"}, ReasonErrImageNeverPull},
		{"default for a tag", "a:1", "", "a:1", []string{ready}, ""},
		{"default for a digest", "a@" + digest, "", "a@" + digest, []string{ready}, ""},
		{"default for latest", "a:latest", "", "a:latest", []string{pull, ready}, ""},
		{"default for untagged", "a", "", "a:latest", []string{pull, ready}, ""},
		{"untagged is latest", "a", v1.PullNever, "a:latest", []string{ready}, ""},
		{"bad name", "UPPER", v1.PullNever, "UPPER", []string{"Warning InspectFailed spec.containers{c}"}, ReasonInvalidImageName},
		{"no name", "", v1.PullAlways, "", []string{"Warning InspectFailed spec.containers{c}"}, ReasonInvalidImageName},
	} {
		t.Run(tc.name, func(t *testing.T) {
			events := &recorder{}
			s := newService(tc.present)
			m := newManager(t, Config{Service: s, Event: events.event})
			image, err := m.Ensure(t.Context(), request("u", tc.image, tc.policy))
			require.Equal(t, tc.events, events.events)
			require.Len(t, s.pulled(), boolToInt(tc.events[0] == pull))
			if tc.reason != "" {
				require.Equal(t, tc.reason, reasonOf(t, err).Reason)
				require.Zero(t, reasonOf(t, err).NotBefore())
				return
			}
			require.NoError(t, err)
			normal, err := imageref.Normalize(tc.image)
			require.NoError(t, err)
			require.Equal(t, Image{Ref: "id-" + normal, UserSpecified: tc.image}, image)
		})
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestUserOfTheImage(t *testing.T) {
	s := newService("root:1", "app:1", "none:1")
	s.images["root:1"].Uid = &runtimeapi.Int64Value{Value: 0}
	s.images["app:1"].Username = "app"
	m := newManager(t, Config{Service: s})
	root, err := m.Ensure(t.Context(), request("u", "root:1", ""))
	require.NoError(t, err)
	require.NotNil(t, root.UID)
	require.Zero(t, *root.UID)
	app, err := m.Ensure(t.Context(), request("u", "app:1", ""))
	require.NoError(t, err)
	require.Nil(t, app.UID)
	require.Equal(t, "app", app.Username)
	none, err := m.Ensure(t.Context(), request("u", "none:1", ""))
	require.NoError(t, err)
	require.Nil(t, none.UID, "nothing is invented")
}

func TestInspectError(t *testing.T) {
	s := newService()
	s.inspect = errors.New("disk on fire")
	events := &recorder{}
	_, err := newManager(t, Config{Service: s, Event: events.event}).Ensure(t.Context(), request("u", "a:1", v1.PullAlways))
	require.Equal(t, ReasonImageInspectError, reasonOf(t, err).Reason)
	require.ErrorIs(t, err, s.inspect)
	require.Equal(t, []string{"Warning InspectFailed spec.containers{c}"}, events.events)
	require.ErrorContains(t, err, `pod ns/pod-u, container "c"`)
}

// C23: ErrImagePull, then ImagePullBackOff with the previous error's text; another
// pod with the same image is not held back.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.set("a:1", errors.New("no such manifest"))
		events := &recorder{}
		m := newManager(t, Config{Service: s, Event: events.event})
		r := request("u", "a:1", "")
		for _, delay := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			start := time.Now()
			_, err := m.Ensure(t.Context(), r)
			failed := reasonOf(t, err)
			require.Equal(t, ReasonErrImagePull, failed.Reason)
			require.Equal(t, start.Add(time.Second), failed.NotBefore(), "soon, to say ImagePullBackOff")
			time.Sleep(delay*time.Second - 1)
			_, err = m.Ensure(t.Context(), r)
			held := reasonOf(t, err)
			require.Equal(t, ReasonImagePullBackOff, held.Reason)
			require.Equal(t, start.Add(delay*time.Second), held.NotBefore())
			var cause *Error
			require.ErrorAs(t, held.Err, &cause)
			require.Zero(t, cause.NotBefore(), "a caller that goes by the earliest time in the tree must find no other")
			require.Contains(t, held.Message, "no such manifest")
			time.Sleep(time.Nanosecond)
		}
		require.Len(t, s.pulled(), 7)
		_, err := m.Ensure(t.Context(), r)
		require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason)
		_, err = m.Ensure(t.Context(), request("other", "a:1", ""))
		require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason, "each pod has its own count")
		require.Equal(t, "Normal BackOff spec.containers{c}", events.events[2])

		time.Sleep(11 * time.Minute)
		_, err = m.Ensure(t.Context(), r)
		require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason)
		_, err = m.Ensure(t.Context(), r)
		require.Equal(t, time.Now().Add(10*time.Second), reasonOf(t, err).NotBefore(), "forgotten after 600 s")
		require.Len(t, m.history.last, 1, "the other pod's failure is dropped too")
		require.Equal(t, 1, m.history.delays.Len())

		s.set("a:1", nil)
		time.Sleep(10 * time.Second)
		_, err = m.Ensure(t.Context(), r)
		require.NoError(t, err)
		require.Empty(t, m.history.last)
	})
}

// C24: a second pull waits, images that are present do not.
func TestSerialPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService("present:1")
		s.took = time.Minute
		m := newManager(t, Config{Service: s})
		start := time.Now()
		var wg sync.WaitGroup
		for i, image := range []string{"a:1", "b:1", "c:1"} {
			wg.Go(func() {
				_, err := m.Ensure(t.Context(), request(image, image, ""))
				require.NoError(t, err)
				require.Equal(t, time.Duration(i+1)*time.Minute, time.Since(start), "first come, first served")
			})
			synctest.Wait()
		}
		_, err := m.Ensure(t.Context(), request("p", "present:1", ""))
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		wg.Wait()
		require.Equal(t, 1, s.most)
	})
}

func TestParallelPulls(t *testing.T) {
	for limit, most := range map[int]int{0: 1, 1: 1, 2: 2, -1: 5} {
		synctest.Test(t, func(t *testing.T) {
			s := newService()
			s.took = time.Minute
			m := newManager(t, Config{Service: s, MaxParallelPulls: limit})
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					_, err := m.Ensure(t.Context(), request("u", fmt.Sprintf("a:%d", i), ""))
					require.NoError(t, err)
				})
			}
			wg.Wait()
			require.Equal(t, most, s.most, "limit %d", limit)
		})
	}
}

// Two pods that want the same absent image pull it once when pulls are serial.
func TestSameImageIsPulledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.took = time.Minute
		m := newManager(t, Config{Service: s})
		var wg sync.WaitGroup
		for _, uid := range []string{"u1", "u2", "u3"} {
			wg.Go(func() {
				image, err := m.Ensure(t.Context(), request(uid, "a:1", ""))
				require.NoError(t, err)
				require.Equal(t, "id-a:1", image.Ref)
			})
		}
		wg.Wait()
		require.Equal(t, []string{"a:1"}, s.pulled())
		for _, uid := range []string{"u1", "u2"} {
			wg.Go(func() {
				_, err := m.Ensure(t.Context(), request(uid, "a:1", v1.PullAlways))
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Len(t, s.pulled(), 3, "Always is always")
	})
}

// A pull that is called off, running or waiting, is no failure.
func TestCancelledPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.took = time.Hour
		events := &recorder{}
		m := newManager(t, Config{Service: s, Event: events.event})
		why := errors.New("pod is deleted")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		for _, uid := range []string{"runs", "waits"} {
			wg.Go(func() {
				_, err := m.Ensure(ctx, request(uid, "a:1", v1.PullAlways))
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, why)
				var e *Error
				require.False(t, errors.As(err, &e), "no waiting reason")
			})
		}
		synctest.Wait()
		cancel(why)
		wg.Wait()
		require.Empty(t, m.history.last)
		require.Equal(t, []string{"Normal Pulling spec.containers{c}"}, events.events)
		_, err := m.Ensure(ctx, request("late", "a:1", ""))
		require.ErrorIs(t, err, context.Canceled)

		s.took = 0
		_, err = m.Ensure(t.Context(), request("runs", "a:1", v1.PullAlways))
		require.NoError(t, err, "neither the backoff nor the slot is taken")
	})
}

// The runtime's own Canceled, with nobody having cancelled, is a failure.
func TestRuntimeGivesUp(t *testing.T) {
	s := newService()
	s.set("a:1", status.Error(codes.Canceled, "shutting down"))
	_, err := newManager(t, Config{Service: s}).Ensure(t.Context(), request("u", "a:1", ""))
	require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason)
}

func TestReasonsOfTheRuntime(t *testing.T) {
	for text, want := range map[string]string{
		"RegistryUnavailable: dial tcp":         ReasonRegistryUnavailable,
		"SignatureValidationFailed: no key":     ReasonSignatureValidationFailed,
		"cannot: RegistryUnavailable in middle": ReasonErrImagePull,
	} {
		for _, err := range []error{errors.New(text), status.Error(codes.Unknown, text), fmt.Errorf("pull: %w", status.Error(codes.Unavailable, text))} {
			s := newService()
			s.set("a:1", err)
			_, got := newManager(t, Config{Service: s}).Ensure(t.Context(), request("u", "a:1", ""))
			require.Equal(t, want, reasonOf(t, got).Reason, err)
			require.ErrorIs(t, got, err)
		}
	}
}

// A pull beyond the rate fails at once and counts as a failure.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		m := newManager(t, Config{Service: s})
		pull := func(i int) error {
			_, err := m.Ensure(t.Context(), request("u", fmt.Sprintf("a:%d", i), ""))
			return err
		}
		for i := range 10 {
			require.NoError(t, pull(i))
		}
		err := pull(10)
		require.ErrorIs(t, err, ErrThrottled)
		require.Equal(t, time.Now().Add(10*time.Second), reasonOf(t, pull(10)).NotBefore())
		time.Sleep(400 * time.Millisecond)
		require.NoError(t, pull(11))
		require.NoError(t, pull(12))
		require.ErrorIs(t, pull(13), ErrThrottled)
		require.Len(t, s.pulled(), 12)
		time.Sleep(time.Hour)
		for i := range 10 {
			require.NoError(t, pull(i+20))
		}
		require.ErrorIs(t, pull(30), ErrThrottled, "what was not used does not pile up")

		free := newManager(t, Config{Service: s, QPS: -1})
		for i := range 100 {
			_, err := free.Ensure(t.Context(), request("u", fmt.Sprintf("b:%d", i), ""))
			require.NoError(t, err)
		}
	})
}

func TestCredentials(t *testing.T) {
	user := func(names ...string) credentials.Source {
		return credentials.SourceFunc(func(_ context.Context, pod *v1.Pod, repository string) ([]credentials.Credential, error) {
			require.Equal(t, "a", repository)
			require.NotNil(t, pod)
			return users(names...), nil
		})
	}
	denied, gone := errors.New("denied"), errors.New("RegistryUnavailable: gone")
	t.Run("tried in turn", func(t *testing.T) {
		s := newService()
		s.set("a:latest one", denied)
		_, err := newManager(t, Config{Service: s, Credentials: user("one", "two", "three")}).Ensure(t.Context(), request("u", "a", ""))
		require.NoError(t, err)
		require.Equal(t, []string{"a:latest one", "a:latest two"}, s.pulled())
	})
	t.Run("all fail", func(t *testing.T) {
		s := newService()
		s.set("a:latest one", denied)
		s.set("a:latest two", gone)
		_, err := newManager(t, Config{Service: s, Credentials: user("one", "two")}).Ensure(t.Context(), request("u", "a", ""))
		require.ErrorIs(t, err, denied)
		require.ErrorIs(t, err, gone)
		require.Equal(t, ReasonRegistryUnavailable, reasonOf(t, err).Reason)
	})
	t.Run("none is anonymous", func(t *testing.T) {
		s := newService()
		_, err := newManager(t, Config{Service: s, Credentials: user()}).Ensure(t.Context(), request("u", "a", ""))
		require.NoError(t, err)
		require.Equal(t, []string{"a:latest"}, s.pulled())
	})
	t.Run("cannot be found", func(t *testing.T) {
		s := newService()
		m := newManager(t, Config{Service: s, Credentials: credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
			return users("one"), denied
		})})
		_, err := m.Ensure(t.Context(), request("u", "a", ""))
		require.NoError(t, err, "the others may do")
		s.set("b:1 one", gone)
		_, err = m.Ensure(t.Context(), request("u", "b:1", ""))
		require.ErrorIs(t, err, denied)
		require.ErrorIs(t, err, gone)
		require.Equal(t, ReasonRegistryUnavailable, reasonOf(t, err).Reason)
	})
}

// An image that vanishes right after its pull is an error: its user is unknown,
// and unknown is not root.
func TestVanishedAfterPull(t *testing.T) {
	s := newService()
	m := newManager(t, Config{Service: vanishing{s}})
	_, err := m.Ensure(t.Context(), request("u", "a:1", ""))
	require.Equal(t, ReasonImageInspectError, reasonOf(t, err).Reason)
}

type vanishing struct{ *service }

func (v vanishing) PullImage(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig, *runtimeapi.PodSandboxConfig) (string, error) {
	return "sha256:gone", nil
}

// retagged answers a pull with another image than the one the name points to.
type retagged struct{ *service }

func (r retagged) PullImage(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig, *runtimeapi.PodSandboxConfig) (string, error) {
	return "sha256:new", nil
}

// The user is that of the image which was pulled.
func TestUserOfThePulledImage(t *testing.T) {
	s := newService("a:1")
	s.images["a:1"].Username = "old"
	s.images["sha256:new"] = &runtimeapi.Image{Id: "sha256:new", Username: "new"}
	image, err := newManager(t, Config{Service: retagged{s}}).Ensure(t.Context(), request("u", "a:1", v1.PullAlways))
	require.NoError(t, err)
	require.Equal(t, Image{Ref: "sha256:new", UserSpecified: "a:1", Username: "new"}, image)
}

// Once called off, no further credential is tried.
func TestCancelledBetweenCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.took = time.Hour
		m := newManager(t, Config{Service: s, Credentials: credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
			return users("one", "two"), nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := m.Ensure(ctx, request("u", "a:1", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"a:1 one"}, s.pulled())
	})
}

func TestEventsPointAtTheContainer(t *testing.T) {
	pod := request("u", "a:1", "").Pod
	pod.Spec.InitContainers = []v1.Container{{Name: "i"}}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
	require.Equal(t, "spec.containers{c}", fieldPath(pod, "c"))
	require.Equal(t, "spec.initContainers{i}", fieldPath(pod, "i"))
	require.Equal(t, "spec.ephemeralContainers{e}", fieldPath(pod, "e"))
	require.Empty(t, fieldPath(pod, "volume"))
}

func TestMetrics(t *testing.T) {
	s := newService("b:1")
	var got []string
	m := newManager(t, Config{Service: s, Metrics: Metrics{
		Requested: func(policy v1.PullPolicy, present, pull bool) {
			got = append(got, fmt.Sprintf("%s %t %t", policy, present, pull))
		},
		Pulled: func(image string, _ time.Duration, size uint64, err error) {
			got = append(got, fmt.Sprintf("%s %d %v", image, size, err))
		},
	}})
	_, err := m.Ensure(t.Context(), request("u", "a:1", ""))
	require.NoError(t, err)
	_, err = m.Ensure(t.Context(), request("u", "b:1", v1.PullNever))
	require.NoError(t, err)
	s.set("c:1", errors.New("no"))
	_, err = m.Ensure(t.Context(), request("u", "c:1", ""))
	require.Error(t, err)
	require.Equal(t, []string{"IfNotPresent false true", "a:1 42 <nil>", "Never true false", "IfNotPresent false true", "c:1 0 no"}, got)
}

// A pull that need not wait looks for the image before and after, and no more.
func TestCallsOfAPull(t *testing.T) {
	s := newService()
	m := newManager(t, Config{Service: s})
	for _, want := range []int{2, 3} { // the second one finds it
		_, err := m.Ensure(t.Context(), request("u", "a:1", ""))
		require.NoError(t, err)
		require.Equal(t, want, s.looks)
	}
}

// What the node's configuration says reaches the runtime with the pull.
func TestPullWithNodeConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"auths": {"r.io": {"username": "me", "password": "p"}}}`), 0o600))
	s := newService()
	m := newManager(t, Config{Service: s, Credentials: credentials.NewNodeConfig([]string{file}, nil)})
	for _, image := range []string{"r.io/x:1", "s.io/x:1"} {
		_, err := m.Ensure(t.Context(), request("u", image, v1.PullIfNotPresent))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"r.io/x:1 me", "s.io/x:1"}, s.pulled())
}
