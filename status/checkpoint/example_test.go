package checkpoint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
