package podsyncer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// Three agents in one process share a runtime and a folder of logs. Each has an owner and a folder
// for its checkpoints, and sees only its own pods.
func Example_threeAgents() {
	dir := must(os.MkdirTemp("", "podsyncer-agents"))
	defer os.RemoveAll(dir)
	runtime := must(fake.New(fake.Config{AnyImage: true}))
	defer runtime.Close()

	type agent struct {
		syncer *podsyncer.Syncer
		merger *podsource.Merger
		end    func() error
	}
	agents := map[string]agent{}
	for _, owner := range []string{"shop", "bank", "zoo"} {
		own := filepath.Join(dir, owner)
		must(0, os.Mkdir(own, 0o750))
		merger := must(podsource.NewMerger(podsource.MergerConfig{}))
		syncer := must(podsyncer.New(podsyncer.Config{
			Pods: pods.Config{
				Runtime: runtime, RuntimeName: "fake", Owner: cri.Owner{Name: owner}, LogRoot: filepath.Join(dir, "logs"),
				Images: must(images.New(images.Config{Service: runtime})),
			},
			Probes:     probe.Config{Probers: map[probe.Handler]probe.Prober{probe.Exec: must(exec.New(exec.Config{Runtime: runtime}))}},
			Checkpoint: must(checkpoint.New(checkpoint.Config{File: func(uid types.UID) string { return filepath.Join(own, string(uid)) }})),
			Loop:       syncloop.Config{Pods: merger},
		}))
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- syncer.Run(ctx) }()
		agents[owner] = agent{syncer, merger, func() error { stop(); return <-ended }}
		must(0, merger.Set("here", []*v1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: types.UID("uid-of-" + owner)},
			Spec:       v1.PodSpec{DNSPolicy: v1.DNSNone, Containers: []v1.Container{{Name: "web", Image: "example.org/web:1"}}},
		}}, syncer.Loop().Emit))
	}
	until(func() bool { return len(must(runtime.ListContainers(context.Background(), nil))) == 3 })

	fmt.Println("shop ends:", agents["shop"].end())
	must(0, agents["bank"].merger.Set("here", nil, agents["bank"].syncer.Loop().Emit))
	until(func() bool { return len(must(runtime.ListPodSandbox(context.Background(), nil))) == 2 })
	fmt.Println("bank ends:", agents["bank"].end())
	fmt.Println("zoo ends:", agents["zoo"].end())
	for _, sandbox := range must(runtime.ListPodSandbox(context.Background(), nil)) {
		fmt.Println(sandbox.Labels[cri.LabelOwner], "still runs", sandbox.Metadata.Name)
	}
	// Unordered output:
	// shop ends: <nil>
	// bank ends: <nil>
	// zoo ends: <nil>
	// shop still runs web
	// zoo still runs web
}
