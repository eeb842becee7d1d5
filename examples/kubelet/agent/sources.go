package agent

import "github.com/podwright/podwright/syncloop/podsource"

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
