package shutdown_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/shutdown"
)

func pod(name string, priority int32, grace int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: &grace},
	}
}

func TestPeriods(t *testing.T) {
	require.Equal(t, []shutdown.Period{{0, 20 * time.Second}, {2_000_000_000, 10 * time.Second}}, shutdown.Periods(30*time.Second, 10*time.Second))
	require.Nil(t, shutdown.Periods(0, 0))
	require.Nil(t, shutdown.Periods(time.Second, 2*time.Second))
	require.Equal(t, 30*time.Second, shutdown.Total(shutdown.Periods(30*time.Second, 10*time.Second)))
}

// N35
func TestGroups(t *testing.T) {
	periods := []shutdown.Period{{1000, 3 * time.Second}, {-5, time.Second}, {10, 2 * time.Second}}
	none := pod("none", 0, 0)
	none.Spec.Priority = nil
	var got [][]string
	for _, g := range shutdown.Groups(periods, []*v1.Pod{
		pod("highest", 2_147_483_647, 0), pod("at", 10, 0), pod("between", 999, 0), pod("lowest", -2_147_483_648, 0), none, pod("top", 1000, 0),
	}) {
		var names []string
		for _, p := range g.Pods {
			names = append(names, p.Name)
		}
		got = append(got, names)
	}
	require.Equal(t, [][]string{{"lowest", "none"}, {"at", "between"}, {"highest", "top"}}, got)
	require.EqualValues(t, 1000, periods[0].Priority, "the passed periods are unchanged")
	require.Empty(t, shutdown.Groups(nil, []*v1.Pod{none}))
	require.Empty(t, shutdown.Groups(periods, nil), "groups without pods are omitted")
}

func TestSeconds(t *testing.T) {
	period := shutdown.Period{Grace: 10*time.Second + 900*time.Millisecond}
	unset := pod("unset", 0, 0)
	unset.Spec.TerminationGracePeriodSeconds = nil
	for _, c := range []struct {
		pod  *v1.Pod
		want int64
	}{{pod("short", 0, 3), 3}, {pod("long", 0, 30), 10}, {pod("zero", 0, 0), 0}, {pod("negative", 0, -7), 0}, {unset, 10}} {
		require.Equal(t, c.want, period.Seconds(c.pod), c.pod.Name)
	}
}

func TestTerminated(t *testing.T) {
	now, before := time.Unix(1000, 0), metav1.NewTime(time.Unix(500, 0))
	for _, c := range []struct{ phase, want v1.PodPhase }{{v1.PodRunning, v1.PodFailed}, {v1.PodPending, v1.PodFailed}, {v1.PodSucceeded, v1.PodSucceeded}} {
		s := v1.PodStatus{Phase: c.phase, Conditions: []v1.PodCondition{{Type: v1.PodReady}}}
		shutdown.Terminated(&s, 4, now)
		require.Equal(t, c.want, s.Phase)
		require.Equal(t, "Terminated", s.Reason)
		require.Equal(t, "Pod was terminated in response to imminent node shutdown.", s.Message)
		require.Equal(t, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", Message: s.Message,
			ObservedGeneration: 4, LastTransitionTime: metav1.NewTime(now),
		}, s.Conditions[1])
	}
	s := v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "Other", LastTransitionTime: before}}}
	shutdown.Terminated(&s, 4, now)
	require.Len(t, s.Conditions, 1)
	require.Equal(t, before, s.Conditions[0].LastTransitionTime)
	require.Equal(t, "TerminationByKubelet", s.Conditions[0].Reason)
}

func TestTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), shutdown.TimesFile)
	got, err := shutdown.ReadTimes(path)
	require.NoError(t, err)
	require.Zero(t, got)
	want := shutdown.Times{Start: time.Unix(1, 0).UTC(), End: time.Unix(2, 0).UTC()}
	require.NoError(t, want.Write(path))
	got, err = shutdown.ReadTimes(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, os.WriteFile(path, []byte(`{"startTime":7`), 0o600))
	_, err = shutdown.ReadTimes(path)
	require.ErrorContains(t, err, path)
}
