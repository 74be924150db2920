# cmake -DSOURCE=… -DCASES=N -DCOMMAND="compiler;options" -DSTAMP=… -P MustNotCompile.cmake: fails unless SOURCE is good as it
# is, and the compiler refuses it with -DMISUSE=1 to -DMISUSE=N, each for what its own warnings say. Writes STAMP.
foreach(case RANGE 0 ${CASES})
  execute_process(COMMAND ${COMMAND} -fsyntax-only -DMISUSE=${case} "${SOURCE}" RESULT_VARIABLE refused ERROR_VARIABLE said)
  if(case EQUAL 0 AND refused)
    message(FATAL_ERROR "${SOURCE} does not compile:\n${said}")
  elseif(case GREATER 0 AND NOT said MATCHES "error: [^\n]*\\[-Werror,-Wthread-safety")
    message(FATAL_ERROR "${SOURCE} with MISUSE=${case} compiles, or is refused for something else:\n${said}")
  endif()
endforeach()
file(TOUCH "${STAMP}")
