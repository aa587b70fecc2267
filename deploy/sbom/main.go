// Command sbom writes the modules of a Go program to standard output, as CycloneDX 1.6: they are in the program itself.
//
//	sbom bin/dist/soloist
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
)

type document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Ref        string     `json:"bom-ref"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: sbom PROGRAM")
	}
	d, err := of(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

// of returns what is in a program.
func of(path string) (document, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return document{}, err
	}
	program := moduleOf("application", &info.Main)
	for _, s := range info.Settings {
		program.Properties = append(program.Properties, property{"go:" + s.Key, s.Value})
	}
	d := document{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{program}}
	d.Components = append(d.Components, moduleOf("library", &debug.Module{Path: "std", Version: info.GoVersion}))
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" { // one without a version is of this repository
			m = m.Replace
		}
		d.Components = append(d.Components, moduleOf("library", m))
	}
	return d, nil
}

func moduleOf(kind string, m *debug.Module) component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: kind, Name: m.Path, Version: m.Version, Ref: url, PURL: url}
	if m.Sum != "" { // of the files of the module, as in go.sum
		c.Properties = append(c.Properties, property{"go:sum", m.Sum})
	}
	return c
}
