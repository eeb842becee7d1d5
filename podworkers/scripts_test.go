package podworkers_test

import (
	"flag"
	"testing"

	"github.com/podwright/podwright/podworkers/podworkerstest"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the scripts")

// The scenarios of the lifecycle, as text.
func TestScripts(t *testing.T) {
	podworkerstest.RunScripts(t, "testdata/*.txt", podworkerstest.ScriptOptions{Rewrite: *rewrite})
}
