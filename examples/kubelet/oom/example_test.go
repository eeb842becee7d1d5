package oom_test

import (
	"fmt"
	"strings"

	"github.com/podwright/podwright/examples/kubelet/oom"
)

func ExampleParser() {
	const log = `python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/db.service,task=db,pid=1811,uid=1000
Out of memory: Killed process 1811 (db) total-vm:43240kB, anon-rss:0kB, file-rss:64kB, shmem-rss:0kB, UID:1000 pgtables:104kB oom_score_adj:0`
	var p oom.Parser
	for line := range strings.Lines(log) {
		if kill, ok := p.Line(line); ok {
			fmt.Println(kill.Process, kill.PID, kill.Cgroup, kill.OfNode())
		}
	}
	// Output: db 1811 /system.slice/db.service true
}
