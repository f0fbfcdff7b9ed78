# cmake -DSOURCE=tree -DHEADER=file -P commit.cmake: writes the tree's commit as a C++ header, if it is another one now.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* OUTPUT_VARIABLE commit ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit "not known")
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#pragma once\n#define ARTESIAN_COMMIT \"${commit}\"\n")
