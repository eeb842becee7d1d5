package podsyncer

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/filesink"
	"github.com/podwright/podwright/status/writer"
)

// A file shows the pods that there are, with their statuses, and no others; also one
// that was never admitted.
func TestAFileShowsThePods(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
		w.sinks = []writer.NamedSink{{Name: "file", Sink: file}}
		phase := func(pod *v1.Pod) v1.PodPhase { return file.Status(pod).Phase }
		good, bad := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a")
		w.refused = "2"
		w.set(good, bad)
		w.start()
		w.sleep(3 * time.Second)
		require.Equal(t, v1.PodRunning, phase(good))
		require.Equal(t, v1.PodFailed, phase(bad))
		w.set()
		w.sleep(10 * time.Second)
		for _, pod := range []*v1.Pod{good, bad} {
			_, err := file.Get(w.t.Context(), status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
			require.ErrorIs(t, err, status.ErrNotFound)
		}
	})
}

// fullSink takes nothing.
type fullSink struct{ status.Sink }

func (fullSink) Put(*v1.Pod) error                { return errors.New("the disk is full") }
func (fullSink) Prune(func(types.UID) bool) error { return errors.New("the disk is full") }

// A sink that takes nothing stops no pod.
func TestAFullSinkStopsNoPod(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
		w.sinks = []writer.NamedSink{{Name: "file", Sink: fullSink{file}}}
		w.set(newPod("1", v1.RestartPolicyAlways, "a"))
		w.start()
		w.sleep(10 * time.Second)
		require.Len(t, w.running(), 1)
		w.set()
		w.sleep(time.Minute)
		w.requireNothingLeft()
	})
}

// A pod that one agent has refused, and that the next one runs, does not stay Failed in
// a file: static pods may begin anew.
func TestAFileShowsAPodThatIsRefusedNoMore(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
		w.sinks = []writer.NamedSink{{Name: "file", Sink: file}}
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		w.refused = "1"
		w.set(pod)
		w.start()
		w.sleep(3 * time.Second)
		require.Equal(t, v1.PodFailed, file.Status(pod).Phase)
		w.stop()
		w.refused = ""
		w.start()
		w.sleep(10 * time.Second)
		require.Equal(t, v1.PodRunning, file.Status(pod).Phase)
	})
}

// hungSink takes in no pod, and does not say so.
type hungSink struct {
	status.Sink
	hang chan struct{}
}

func (h hungSink) Put(*v1.Pod) error                { <-h.hang; return nil }
func (h hungSink) Prune(func(types.UID) bool) error { return nil }

// A sink that hangs stops no pod, and no loop.
func TestAHungSinkStopsNoPod(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
		hang := make(chan struct{})
		w.sinks = []writer.NamedSink{{Name: "file", Sink: hungSink{file, hang}}}
		w.refused = "2"
		w.set(newPod("2", v1.RestartPolicyAlways, "a"), newPod("1", v1.RestartPolicyAlways, "a"))
		w.start()
		w.sleep(10 * time.Second)
		require.Len(t, w.running(), 1)
		w.set()
		w.sleep(time.Minute)
		require.Empty(t, w.running())
		close(hang)
		w.sleep(time.Minute)
	})
}
