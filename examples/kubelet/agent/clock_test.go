package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// A runtime or an API server whose clock is an hour off changes nothing of what pods do:
// they start, crash and come back, and go after their grace.
func TestClocksOfOthers(t *testing.T) {
	t.Run("none", func(t *testing.T) { otherClocks(t, 0, 0) })
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint("runtime ", ahead), func(t *testing.T) { otherClocks(t, ahead, 0) })
		t.Run(fmt.Sprint("API ", ahead), func(t *testing.T) { otherClocks(t, 0, ahead) })
		t.Run(fmt.Sprint("both ", ahead), func(t *testing.T) { otherClocks(t, ahead, ahead) })
	}
}

func otherClocks(t *testing.T, runtime, api time.Duration) {
	programs := fake.ByContainer(map[string]fake.Program{"crashes": fake.Exit(1), "ignores": ignores}, fake.SleepUntilStopped)
	inWorld(t, fake.Config{ClockSkew: runtime, Programs: programs}, func(w *world) {
		w.api = apitest.Start(w.t)
		w.start()
		w.sleep(3 * time.Second)
		there := func() metav1.Time { return metav1.NewTime(time.Now().Add(api)) }
		pod := bound("a", "stays", "crashes")
		pod.CreationTimestamp = there()
		stubborn := bound("b", "ignores")
		stubborn.CreationTimestamp = there()
		deadline := bound("c", "late")
		deadline.CreationTimestamp, deadline.Spec.ActiveDeadlineSeconds = there(), new(int64(60))
		for _, p := range []*v1.Pod{pod, stubborn, deadline} {
			w.api.Put(p)
		}
		w.sleep(30 * time.Second)
		require.Equal(w.t, []uint32{0}, w.running()["stays"])
		require.Equal(w.t, []uint32{0}, w.running()["ignores"])
		require.Equal(w.t, []uint32{0}, w.running()["late"], "its deadline has not come")
		require.EqualValues(w.t, 2, restarts(w, "a"), "at once, and after ten seconds")
		w.sleep(80 * time.Second)
		require.EqualValues(w.t, 4, restarts(w, "a"), "after twenty more, and forty")
		require.Equal(w.t, v1.PodFailed, w.at("c").Status.Phase)
		require.Equal(w.t, "DeadlineExceeded", w.at("c").Status.Reason)

		w.removeAt("b", there(), 20)
		w.sleep(10 * time.Second)
		require.Equal(w.t, []uint32{0}, w.running()["ignores"], "its grace is not over")
		w.sleep(15 * time.Second)
		require.Nil(w.t, w.at("b"))
		w.stop()
		w.start()
		w.sleep(10 * time.Second)
		require.Equal(w.t, []uint32{0}, w.running()["stays"], "another agent finds it as it was")
		w.removeAt("a", there(), 2)
		w.removeAt("c", there(), 2)
		w.sleep(10 * time.Second)
		w.requireNothingLeft()
	})
}

// ignores is a program that only SIGKILL ends.
func ignores(ctx context.Context, p *fake.Process) int {
	p.Signals()
	<-ctx.Done()
	return 137
}

func restarts(w *world, pod string) int32 {
	for _, c := range w.at(pod).Status.ContainerStatuses {
		if c.Name == "crashes" {
			return c.RestartCount
		}
	}
	return -1
}

// removeAt deletes a pod at a time of the server.
func (w *world) removeAt(name string, at metav1.Time, grace int64) {
	pod := w.at(name)
	end := metav1.NewTime(at.Add(time.Duration(grace) * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &grace
	w.api.Put(pod)
}
