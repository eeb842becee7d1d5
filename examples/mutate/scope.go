package main

import (
	"os"
	"path/filepath"
	"strings"
)

// decisionCode is where the library decides: the pure cores. What owns goroutines,
// reads clocks or talks to somebody is not here.
var decisionCode = []string{
	"podworkers/machine.go", "podworkers/machine_calls.go", "podworkers/machine_known.go",
	"podworkers/grace.go", "podworkers/names.go", "podworkers/notes.go", "podworkers/retry.go", "podworkers/state.go",
	"podworkers/stages",
	"syncloop/default_handler.go", "syncloop/diff.go", "syncloop/handled.go", "syncloop/order.go", "syncloop/retries.go", "syncloop/steps.go",
	"syncloop/admission", "syncloop/allocation", "syncloop/eviction",
	"syncloop/podsource/history.go", "syncloop/podsource/merger.go", "syncloop/podsource/patience.go", "syncloop/podsource/read.go",
	"pleg/core.go", "pleg/event.go", "pleg/period.go", "pleg/pod.go", "pleg/schedule.go", "pleg/status.go", "pleg/types.go", "pleg/wait.go",
	"probe/core.go", "probe/spec.go", "probe/worker.go",
	"status",
	"status/writer/answer.go", "status/writer/change.go", "status/writer/queue.go", "status/writer/set.go",
	"status/writer/slot.go", "status/writer/target.go", "status/writer/turn.go",
	"cri/cgroups", "cri/stats", "cri/pods/actions", "cri/pods/garbage", "cri/pods/observe", "cri/pods/request", "cri/pods/resize",
	"status/node",
	"volume/begin.go", "volume/desire.go", "volume/end.go", "volume/explain.go", "volume/found.go", "volume/groups.go", "volume/kinds.go",
	"volume/layout.go", "volume/mountof.go", "volume/next.go", "volume/operation.go", "volume/outofscope.go", "volume/relations.go",
	"volume/resolve.go", "volume/spec.go", "volume/used.go", "volume/world.go",
	"volume/claims", "volume/content/payload.go", "volume/sources",
	"volume/objects/catalog.go", "volume/objects/decode.go", "volume/objects/references.go", "volume/objects/tokenlife.go",
	"internal/backoff", "internal/files/hints.go", "internal/podfacts", "internal/run",
}

// alsoTestedBy names folders whose tests show what a folder does, too. They run on
// what survives the folder's own.
var alsoTestedBy = map[string][]string{
	"podworkers":         {"podworkers/podworkerstest", "podworkers/stages"},
	"podworkers/stages":  {"podworkers/stages/stagestest", "cri/podsyncer"},
	"pleg":               {"pleg/plegtest"},
	"probe":              {"probe/probetest"},
	"status":             {"status/writer", "status/statustest"},
	"status/writer":      {"status/statustest"},
	"syncloop":           {"syncloop/eventsourcetest", "cri/podsyncer"},
	"syncloop/podsource": {"syncloop/eventsourcetest"},
	"cri/pods/actions":   {"cri/pods"},
	"cri/pods/garbage":   {"cri/pods"},
	"cri/pods/observe":   {"cri/pods"},
	"cri/pods/request":   {"cri/pods"},
	"cri/pods/resize":    {"cri/pods"},
	"volume":             {"volume/volumetest", "volume/csi"},
	"volume/content":     {"volume/volumetest", "volume/projected"},
	"volume/sources":     {"volume/volumetest", "volume/projected"},
}

// sources lists the Go sources among names, and in those of them that are folders,
// without tests and without what is built on some systems only: that talks to them.
func sources(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, name)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range inside {
			if !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(file, "_other.go") && !strings.HasSuffix(file, "_linux.go") {
				files = append(files, file)
			}
		}
	}
	return files, nil
}
