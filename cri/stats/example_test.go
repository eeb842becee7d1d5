package stats_test

import (
	"fmt"
	"os"

	"github.com/podwright/podwright/cri/stats"
)

// Example prints the usage of a pod from a recorded tree.
func Example() {
	r := must(stats.New(stats.Config{FS: os.DirFS("testdata/v1"), Version: stats.V1}))
	u := must(r.Read("/podrec/pod1"))
	fmt.Println(*u.Memory.WorkingSet, "bytes of", *u.Memory.Limit)
	fmt.Println(*u.CPU.Total)
	fmt.Println("pressure is known:", u.IO != nil)
	// Output:
	// 557056 bytes of 104857600
	// 6.34669ms
	// pressure is known: false
}
