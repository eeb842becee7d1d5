package fake_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// In Example_virtualTime an hour of a container that crashes every ten seconds passes in
// milliseconds: the clock of a testing/synctest bubble jumps when all goroutines wait. In a real
// test, t is the argument of the test.
func Example_virtualTime() {
	t := new(testing.T)
	synctest.Test(t, func(t *testing.T) {
		rt, _ := fake.New(fake.Config{AnyImage: true, Programs: fake.Always(func(context.Context, *fake.Process) int {
			time.Sleep(10 * time.Second) // of the bubble's time
			return 1
		})})
		defer rt.Close()
		pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "1"}}
		sandbox, _ := rt.RunPodSandbox(t.Context(), pod, "")
		begin, crashes := time.Now(), 0
		for ; time.Since(begin) < time.Hour; crashes++ {
			id, _ := rt.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(crashes)},
				Image:    &runtimeapi.ImageSpec{Image: "busybox"},
			}, pod)
			_ = rt.StartContainer(t.Context(), id)
			time.Sleep(10 * time.Second)
			synctest.Wait() // until all goroutines wait
		}
		exited, _ := rt.ListContainers(t.Context(), nil)
		fmt.Println(crashes, "crashes in", time.Since(begin), "and", len(exited), exited[0].State)
	})
	// Output: 360 crashes in 1h0m0s and 360 CONTAINER_EXITED
}
