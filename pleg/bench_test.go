package pleg

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// An idle list of 1000 pods with 3000 containers, without the runtime's own work.
func BenchmarkIdleRelist(b *testing.B) {
	for _, pods := range []int{50, 1000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			cfg := Config{Runtime: struct{ Runtime }{}}
			if err := cfg.complete(); err != nil {
				b.Fatal(err)
			}
			c := newCore(cfg, false)
			now := time.Now()
			c.begin(now)
			statuses := map[types.UID]*PodStatus{}
			list := make([]ObservedPod, 0, pods)
			for i := range pods {
				s := onePod(types.UID(fmt.Sprintf("7d2c1b1e-0000-0000-0000-%012d", i)), StateRunning, StateExited, StateRunning)
				statuses[s.UID] = s
				list = append(list, ObservedFrom(s))
			}
			relist := func() {
				now = now.Add(2 * time.Second)
				q, _ := c.next(now)
				if q == nil || q.kind != listAll {
					b.Fatal("no list is due")
				}
				c.apply(result{query: q, pods: list}, now)
			}
			relist()
			for q, _ := c.next(now); q != nil; q, _ = c.next(now) {
				c.apply(result{query: q, status: statuses[q.uid]}, now)
			}
			b.ReportAllocs()
			for b.Loop() {
				relist()
			}
		})
	}
}
