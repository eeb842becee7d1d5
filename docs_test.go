package podwright_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The documentation of a package names each of its examples, so that who reads it in an
// editor finds code that compiles. This holds in every module of the repository.
func TestDocsNameTheirExamples(t *testing.T) {
	docs, examples := map[string]string{}, map[string][]string{} // by folder
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || len(name) > 1 && name[0] == '.'):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		folder, isTest := filepath.Dir(file), strings.HasSuffix(name, "_test.go")
		mode := parser.ParseComments | parser.SkipObjectResolution
		if !isTest {
			mode |= parser.PackageClauseOnly
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
		if err != nil {
			return err
		}
		if !isTest {
			docs[folder] += parsed.Doc.Text()
			return nil
		}
		for _, e := range doc.Examples(parsed) {
			examples[folder] = append(examples[folder], "Example"+e.Name)
		}
		return nil
	}))
	require.NotEmpty(t, examples)
	var missing []string
	for folder, names := range examples {
		for _, name := range names {
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(docs[folder]) {
				missing = append(missing, folder+": "+name)
			}
		}
	}
	require.Empty(t, missing, "the package comment names no such example")
}
