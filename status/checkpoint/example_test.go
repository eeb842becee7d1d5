package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
)

func Example() {
	root, err := os.MkdirTemp("", "pods")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := os.Mkdir(filepath.Join(root, "uid-1"), 0o750); err != nil {
		log.Fatal(err)
	}
	cfg := checkpoint.Config{
		File: func(uid types.UID) string { return filepath.Join(root, string(uid), "status.json") },
		Sync: true, // a power cut loses no record
	}

	before, err := checkpoint.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	err = before.Save("uid-1", checkpoint.Record{
		Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "app", RestartCount: 3, Ready: true}}},
		Probes: []probe.Stored{{Container: "app", ContainerID: "containerd://4f1e", Type: probe.Readiness, Result: probe.Success}},
	})
	if err != nil {
		log.Fatal(err)
	}

	// The agent is killed, and another one starts.
	after, err := checkpoint.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	for _, uid := range []types.UID{"uid-1", "uid-2"} {
		record, err := after.Load(uid)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Println(uid, "is new")
		case err != nil:
			fmt.Println(uid, "starts without memory:", err)
		default:
			app := record.Status.ContainerStatuses[0]
			fmt.Println(uid, "was", record.Status.Phase, "ready", app.Ready, "restarts", app.RestartCount)
		}
	}
	// Output:
	// uid-1 was Running ready true restarts 3
	// uid-2 is new
}

// The stage of records in a folder of their own. An agent adds it to its list of stages.
func ExampleNewStage() {
	root, err := os.MkdirTemp("", "records")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	store, err := checkpoint.New(checkpoint.Config{File: func(uid types.UID) string { return filepath.Join(root, string(uid)+".json") }})
	if err != nil {
		log.Fatal(err)
	}
	records, err := checkpoint.NewStage(store, func(context.Context) (uids []types.UID, err error) {
		files, err := os.ReadDir(root)
		for _, f := range files {
			uid, _, _ := strings.Cut(f.Name(), ".")
			uids = append(uids, types.UID(uid))
		}
		return uids, err
	})
	if err != nil {
		log.Fatal(err)
	}
	list, err := stages.New(stages.Config{Stages: []stages.Entry{{Name: "records", Release: stages.Gone, Stage: records}}})
	if err != nil {
		log.Fatal(err)
	}

	// The record remains of a pod that ended while no agent ran.
	if err := store.Save("uid-1", checkpoint.Record{Status: v1.PodStatus{Phase: v1.PodRunning}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(list.Leftovers(context.Background()))
	fmt.Println(list.Release(context.Background(), "uid-1", stages.Gone))
	fmt.Println(list.Leftovers(context.Background()))
	// Output:
	// map[uid-1:[records]] <nil>
	// <nil>
	// map[] <nil>
}
