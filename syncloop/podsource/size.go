//lint:file-ignore SA1019 The module behind this package is no direct requirement of ours.

package podsource

import (
	"bytes"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml/goyaml.v3"
)

const (
	// maxValues bounds the values of a manifest: a decoder takes hundreds of bytes for
	// each, also of one that has a single byte in the text.
	maxValues = 1 << 18
	// maxExpanded is how many bytes a manifest may have once its aliases are replaced by
	// what they stand for. The decoder bounds how many there are, and not how long.
	maxExpanded = 10 << 20
)

// checkSize refuses a manifest that would take far more memory than its own size. It
// takes none itself that does.
func checkSize(manifest []byte) error {
	if n := countValues(manifest); n > maxValues {
		return fmt.Errorf("the manifest has more than %d values", maxValues)
	}
	if !anchor.Match(manifest) || !alias.Match(manifest) {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(manifest, &root); err != nil {
		return cleanError(err)
	}
	e := expansion{sizes: map[*yaml.Node]int{}}
	if e.size(&root) > maxExpanded {
		return fmt.Errorf("the manifest has more than %d bytes once its aliases (*) are replaced", maxExpanded)
	}
	return nil
}

// separators are what a value of YAML or JSON begins or ends with, one at least.
const separators = "\n,:[{-?"

// countValues counts generously: text has such characters, too.
func countValues(manifest []byte) int {
	n := 0
	for _, c := range []byte(separators) {
		n += bytes.Count(manifest, []byte{c})
	}
	return n
}

// Whatever has neither has no alias; "2>&1" looks like an anchor and is none.
var anchor, alias = regexp.MustCompile(`&[0-9A-Za-z_-]`), regexp.MustCompile(`\*[0-9A-Za-z_-]`)

// expansion adds up the text of a document with its aliases replaced.
type expansion struct {
	// sizes are those of anchors, which are asked for again and again.
	sizes map[*yaml.Node]int
}

// size is more than maxExpanded for all that is larger.
func (e expansion) size(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return e.size(n.Alias)
	}
	size, known := e.sizes[n]
	if known {
		return size
	}
	if n.Anchor != "" {
		e.sizes[n] = 0 // an anchor that contains itself is refused by the decoder
	}
	size = len(n.Value) + 1
	for _, child := range n.Content {
		size = min(size+e.size(child), maxExpanded+1)
	}
	if n.Anchor != "" {
		e.sizes[n] = size
	}
	return size
}
