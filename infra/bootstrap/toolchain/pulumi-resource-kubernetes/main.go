// The upstream main embeds generated files that its module zip does not carry
// where Go can see them; this one embeds the copies the build puts beside it.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var mapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, mapping)
}
