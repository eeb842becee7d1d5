package stages_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
)

// scratch gives each pod a folder. The names of the folders are its only state.
type scratch struct{ root string }

func (s scratch) Prepare(_ context.Context, pod *v1.Pod) error {
	return os.MkdirAll(filepath.Join(s.root, string(pod.UID)), 0o700)
}

func (s scratch) Release(_ context.Context, uid types.UID) error {
	return os.RemoveAll(filepath.Join(s.root, string(uid)))
}

func (s scratch) Leftovers(context.Context) (uids []types.UID, err error) {
	entries, err := os.ReadDir(s.root)
	for _, e := range entries {
		uids = append(uids, types.UID(e.Name()))
	}
	return uids, err
}

func Example() {
	root, err := os.MkdirTemp("", "stages")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	list, err := stages.New(stages.Config{Stages: []stages.Entry{
		{Name: "scratch", Release: stages.Stopped, Stage: scratch{root}},
	}})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1234"}}

	err = list.Prepare(ctx, pod)
	left, _ := list.Leftovers(ctx)
	fmt.Println(left, err)
	fmt.Println(list.Explain("1234")[0].At(time.Now()))

	err = list.Release(ctx, "1234", stages.Stopped)
	left, _ = list.Leftovers(ctx)
	fmt.Println(left, err)
	// Output:
	// map[1234:[scratch]] <nil>
	// stage scratch: ready for 0s
	// map[] <nil>
}
