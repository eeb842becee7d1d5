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
		w.run(3*time.Second, good, bad)
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

// A pod that one agent has refused, and that the next one runs, does not stay Failed in
// a file: static pods may begin anew.
func TestAFileShowsAPodThatIsRefusedNoMore(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
		w.sinks = []writer.NamedSink{{Name: "file", Sink: file}}
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		w.refused = "1"
		w.run(3*time.Second, pod)
		require.Equal(t, v1.PodFailed, file.Status(pod).Phase)
		w.stop()
		w.refused = ""
		w.start()
		w.sleep(10 * time.Second)
		require.Equal(t, v1.PodRunning, file.Status(pod).Phase)
	})
}

// badSink takes in no pod: it does what put does.
type badSink struct {
	status.Sink
	put func() error
}

func (b badSink) Put(*v1.Pod) error                { return b.put() }
func (b badSink) Prune(func(types.UID) bool) error { return nil }

// A sink that takes nothing, or hangs, stops no pod, and no loop.
func TestABadSinkStopsNoPod(t *testing.T) {
	hang := make(chan struct{})
	for name, put := range map[string]func() error{
		"full": func() error { return errors.New("the disk is full") },
		"hung": func() error { <-hang; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{}, func(w *world) {
				hang = make(chan struct{})
				file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
				w.sinks = []writer.NamedSink{{Name: "file", Sink: badSink{file, put}}}
				w.refused = "2"
				w.run(10*time.Second, newPod("2", v1.RestartPolicyAlways, "a"), newPod("1", v1.RestartPolicyAlways, "a"))
				require.Len(t, w.running(), 1)
				w.set()
				w.sleep(time.Minute)
				require.Empty(t, w.running())
				close(hang)
				w.sleep(time.Minute)
				w.requireNothingLeft()
			})
		})
	}
}
