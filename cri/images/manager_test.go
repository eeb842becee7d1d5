package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

func TestRefuses(t *testing.T) {
	_, err := New(Config{Service: newService(), Burst: -1})
	require.ErrorContains(t, err, "Burst")
	m := newManager(t, Config{Service: newService()})
	for want, change := range map[string]func(*Request){
		"Request.Pod is required":    func(r *Request) { r.Pod = nil },
		"Request.Container or Volum": func(r *Request) { r.Container = nil },
		"Volume is required, not bo": func(r *Request) { r.Volume = &v1.Volume{} },
		"not an image volume":        func(r *Request) { r.Container, r.Volume = nil, &v1.Volume{Name: "v"} },
		"Request.Missing":            func(r *Request) { r.Missing = -1 },
	} {
		r := request("u", "a:1", "")
		change(&r)
		_, err := m.Ensure(t.Context(), r)
		require.ErrorContains(t, err, want)
	}
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
			require.Equal(t, tc.events[0] == pull, len(s.pulled()) == 1)
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

func TestUserOfTheImage(t *testing.T) {
	s := newService("root:1", "app:1", "none:1")
	s.images["root:1"].Uid = &runtimeapi.Int64Value{Value: 0}
	s.images["app:1"].Username = "app"
	m := newManager(t, Config{Service: s})
	for _, want := range []Image{
		{Ref: "id-root:1", UserSpecified: "root:1", UID: new(int64(0))},
		{Ref: "id-app:1", UserSpecified: "app:1", Username: "app"},
		{Ref: "id-none:1", UserSpecified: "none:1"}, // values are never invented
	} {
		got, err := m.Ensure(t.Context(), request("u", want.UserSpecified, ""))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// C24: surplus pulls wait; requests for present images do not.
func TestParallelPulls(t *testing.T) {
	for limit, most := range map[int]int{0: 1, 1: 1, 2: 2, -1: 5} {
		serving(t, time.Minute, Config{MaxParallelPulls: limit}, func(t *testing.T, s *service, m *Manager) {
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					require.NoError(t, get(t, m, "u", fmt.Sprintf("a:%d", i), ""))
				})
			}
			synctest.Wait()
			begun := time.Now()
			s.add("present:1")
			require.NoError(t, get(t, m, "p", "present:1", ""))
			require.Zero(t, time.Since(begun))
			wg.Wait()
			require.Equal(t, most, s.most, "limit %d", limit)
		})
	}
}

// A cancelled pull, running or waiting, is no failure. It ends with its last request; a later
// request starts a new one.
func TestCancelledPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, events := newService(), &recorder{}
		s.takes(time.Hour)
		m := newManager(t, Config{Service: s, Event: events.event})
		pods := []*waiter{ensure(t, m, request("a", "a:1", "")), ensure(t, m, request("b", "a:1", "")), ensure(t, m, request("waits", "b:1", ""))}
		for i, running := range []int{1, 1, 0} { // the waiting one is cancelled second
			w := pods[[]int{0, 2, 1}[i]]
			w.cancel()
			require.True(t, w.returned())
			require.ErrorIs(t, w.err, context.Canceled)
			var e *Error
			require.False(t, errors.As(w.err, &e), "no waiting reason")
			got, _ := s.load()
			require.Equal(t, running, got)
		}
		require.Empty(t, m.Pulls())
		require.Empty(t, m.history.last)
		require.Equal(t, []string{"a:1"}, s.pulled())
		why := errors.New("pod is deleted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err := m.Ensure(ctx, request("late", "a:1", ""))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)

		s.takes(0)
		require.NoError(t, get(t, m, "a", "a:1", v1.PullAlways), "neither the backoff nor the slot is taken")
		require.Equal(t, []string{"Normal Pulling spec.containers{c}", "Normal Pulling spec.containers{c}", "Normal Pulling spec.containers{c}", "Normal Pulled spec.containers{c}"}, events.events)
	})
}

// retagged returns a new image from a pull, while the name still refers to the old image.
type retagged struct{ *service }

func (r retagged) PullImage(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig, *runtimeapi.PodSandboxConfig) (string, error) {
	return "sha256:new", nil
}

// The user is the pulled image's. If the image disappears right after its pull, the user is
// unknown, which must not mean root.
func TestUserOfThePulledImage(t *testing.T) {
	s := newService("a:1")
	m := newManager(t, Config{Service: retagged{s}})
	require.Equal(t, ReasonImageInspectError, reasonOf(t, get(t, m, "u", "a:1", v1.PullAlways)).Reason)
	s.images["a:1"].Username = "old"
	s.images["sha256:new"] = &runtimeapi.Image{Id: "sha256:new", Username: "new"}
	image, err := m.Ensure(t.Context(), request("v", "a:1", v1.PullAlways))
	require.NoError(t, err)
	require.Equal(t, Image{Ref: "sha256:new", UserSpecified: "a:1", Username: "new"}, image)
}

// A pull is a span of the waiting container, and uses the context of its first request. A present
// image has no span.
func TestMetricsAndSpans(t *testing.T) {
	s := newService("b:1")
	type key struct{}
	var got, spans []string
	m := newManager(t, Config{Service: s, Metrics: Metrics{
		OnRequest: func(policy v1.PullPolicy, present, pull bool) {
			got = append(got, fmt.Sprintf("%s %t %t", policy, present, pull))
		},
		OnPull: func(image string, _ time.Duration, size uint64, err error) {
			got = append(got, fmt.Sprintf("%s %d %v", image, size, err))
		},
		OnWait: func(pod types.UID, from, to time.Time) {
			require.False(t, to.Before(from))
			got = append(got, "waited "+string(pod))
		},
	}, Span: func(ctx context.Context, name string, attributes ...slog.Attr) (context.Context, func(error)) {
		spans = append(spans, fmt.Sprint(name, attributes))
		return context.WithValue(ctx, key{}, name), func(err error) { spans = append(spans, fmt.Sprint(err)) }
	}})
	require.NoError(t, get(t, m, "u", "a:1", ""))
	require.NoError(t, get(t, m, "u", "b:1", v1.PullNever))
	s.set("c:1", errors.New("no"))
	require.Error(t, get(t, m, "u", "c:1", ""))
	require.Equal(t, []string{"IfNotPresent false true", "a:1 42 <nil>", "waited u", "Never true false", "IfNotPresent false true", "c:1 0 no", "waited u"}, got)
	require.Len(t, spans, 4)
	require.Regexp(t, `^Images/Pull\[image=docker.io/library/a:1 k8s.pod=\S+ k8s.pod.uid=u\]$|^Images/Pull\[image=a:1 k8s.pod=\S+ k8s.pod.uid=u\]$`, spans[0])
	require.Equal(t, "<nil>", spans[1])
	require.Contains(t, spans[3], "no")
	require.Equal(t, "Images/Pull", s.pulledWith.Value(key{}))
}
