package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/podsource"
)

// The names of the sources of pods, as upstream has them in an annotation.
const (
	fileSource = "file"
	httpSource = "http"
)

// sources say which pods should be there.
type sources struct {
	merger *podsource.Merger
	files  *podsource.FileSource // nil without a manifest path
	web    *podsource.HTTPSource // nil without a manifest URL
}

// delivered are the pods that the sources name, whether or not the loop has got to
// them; an error while none of them has been read.
func (s sources) delivered() (map[types.UID]*v1.Pod, error) {
	out, missing, read := map[types.UID]*v1.Pod{}, error(nil), false
	for name, there := range map[string]bool{fileSource: s.files != nil, httpSource: s.web != nil} {
		pods, delivered := s.merger.Pods(name)
		switch {
		case delivered:
			read = true
		case there:
			missing = fmt.Errorf("the manifests of source %q have not been read", name)
		}
		for _, pod := range pods {
			out[pod.UID] = pod
		}
	}
	if read {
		return out, nil
	}
	return out, missing
}

// manifestProblems are what cannot be used of what the sources have.
func (s sources) manifestProblems() []podsource.Problem {
	var problems []podsource.Problem
	if s.files != nil {
		problems = append(problems, s.files.Problems()...)
	}
	if s.web != nil {
		problems = append(problems, s.web.Problems()...)
	}
	return problems
}

// health names manifests that do not answer, such as a link to a device.
func (s sources) health() error {
	if s.files == nil {
		return nil
	}
	return s.files.CheckHealth()
}
