package checkpoint

import "testing"

func makePipe(t *testing.T, _ string) { t.Skip("needs named pipes in folders") }
