package images

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/imageref"
)

const digest = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"

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
		Waited: func(pod types.UID, from, to time.Time) {
			require.False(t, to.Before(from))
			got = append(got, "waited "+string(pod))
		},
	}})
	_, err := m.Ensure(t.Context(), request("u", "a:1", ""))
	require.NoError(t, err)
	_, err = m.Ensure(t.Context(), request("u", "b:1", v1.PullNever))
	require.NoError(t, err)
	s.set("c:1", errors.New("no"))
	_, err = m.Ensure(t.Context(), request("u", "c:1", ""))
	require.Error(t, err)
	require.Equal(t, []string{"IfNotPresent false true", "a:1 42 <nil>", "waited u", "Never true false", "IfNotPresent false true", "c:1 0 no", "waited u"}, got)
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
