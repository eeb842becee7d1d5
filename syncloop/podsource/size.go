//lint:file-ignore SA1019 The module behind this package is no direct requirement of ours.

package podsource

import (
	"bytes"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml/goyaml.v3"
)

const (
	// maxValues bounds the number of values in a manifest. A decoder needs hundreds of bytes for
	// each value, even for one byte of text.
	maxValues = 1 << 18
	// maxExpanded bounds the bytes of a manifest with expanded aliases. The decoder bounds only
	// the number of aliases, not their size.
	maxExpanded = 10 << 20
)

// checkSize refuses a manifest whose decoding needs far more memory than its size. The check
// itself needs little memory.
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
		return fmt.Errorf("the manifest has more than %d bytes with expanded aliases (*)", maxExpanded)
	}
	return nil
}

// separators are characters at the begin or end of each YAML or JSON value.
const separators = "\n,:[{-?"

// countValues returns an upper bound: text contains separators, too.
func countValues(manifest []byte) int {
	n := 0
	for _, c := range []byte(separators) {
		n += bytes.Count(manifest, []byte{c})
	}
	return n
}

// A manifest without a match has no alias. "2>&1" is no anchor but matches the pattern.
var anchor, alias = regexp.MustCompile(`&[0-9A-Za-z_-]`), regexp.MustCompile(`\*[0-9A-Za-z_-]`)

type expansion struct {
	// sizes caches the sizes of anchors.
	sizes map[*yaml.Node]int
}

// size returns the size of a node, at most maxExpanded+1.
func (e expansion) size(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return e.size(n.Alias)
	}
	size, cached := e.sizes[n]
	if cached {
		return size
	}
	if n.Anchor != "" {
		e.sizes[n] = 0 // the decoder refuses an anchor that contains itself
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
