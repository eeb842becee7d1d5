package podsyncer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/podfolder"
)

// Example runs a node agent on a runtime in memory. On a real runtime only the first lines differ:
// cri.DialRuntime and cri.DialImages. A podsource.FileSource reads a folder of manifests instead of
// Merger.Set.
func Example() {
	dir := must(os.MkdirTemp("", "podsyncer-example"))
	defer os.RemoveAll(dir)
	runtime := must(fake.New(fake.Config{}))
	defer runtime.Close()

	folders := must(podfolder.New(podfolder.Config{Root: filepath.Join(dir, "pods")}))
	merger := must(podsource.NewMerger(podsource.MergerConfig{}))
	syncer := must(podsyncer.New(podsyncer.Config{
		Pods: pods.Config{
			Runtime: runtime, RuntimeName: "fake", Owner: cri.Owner{Name: "example"},
			Images:  must(images.New(images.Config{Service: runtime})),
			LogRoot: filepath.Join(dir, "logs"), PodDir: folders.Pod,
		},
		Probes: probe.Config{Probers: map[probe.Handler]probe.Prober{probe.Exec: must(exec.New(exec.Config{Runtime: runtime}))}},
		Stages: must(stages.New(stages.Config{Stages: []stages.Entry{{Name: "folder", Release: stages.Gone, Stage: folders}}})),
		Loop:   syncloop.Config{Pods: merger},
		Checkpoint: must(checkpoint.New(checkpoint.Config{
			File: func(uid types.UID) string { return filepath.Join(folders.Pod(uid), "status.json") },
		})),
	}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- syncer.Run(ctx) }()

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec:       v1.PodSpec{DNSPolicy: v1.DNSNone, Containers: []v1.Container{{Name: "hello", Image: "example.org/hello:1"}}},
	}
	_ = must(0, merger.Set("here", []*v1.Pod{pod}, syncer.Loop().Emit))
	until(func() bool { s := syncer.Statuses().Get("1"); return s != nil && s.Phase == v1.PodRunning })
	fmt.Println("it runs")
	_ = must(0, merger.Set("here", nil, syncer.Loop().Emit))
	until(func() bool { return len(must(folders.Leftovers(ctx))) == 0 })
	fmt.Println("nothing is left")
	stop()
	fmt.Println(<-ended)
	// Output:
	// it runs
	// nothing is left
	// <nil>
}

func until(good func() bool) {
	for !good() {
		time.Sleep(10 * time.Millisecond)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
